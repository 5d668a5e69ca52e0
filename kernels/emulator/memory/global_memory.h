// Global memory: real memory of this process, limited to the launch's buffers; global_order.h
// has what is checked of the order of accesses.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

// An access by the running thread: it must lie in one buffer, be aligned to `alignment`, and
// be ordered after those it conflicts with.
void CheckGlobal(const void* address, std::uint64_t bytes, std::uint64_t alignment, bool is_write,
                 const char* what, const CallSite& site);

// fence.proxy.async.global
void FenceProxyAsyncGlobal(const CallSite& site);

}  // namespace gemmd::emulator
