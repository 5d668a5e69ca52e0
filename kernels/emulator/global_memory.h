// Global memory: real memory of this process, limited to the launch's buffers.
#pragma once

#include <cstdint>

#include "kernels/emulator/call_site.h"

namespace gemmd::emulator {

// The access must lie in one buffer and be aligned to `alignment`.
void CheckGlobal(const void* address, std::uint64_t bytes, std::uint64_t alignment, bool is_write,
                 const char* what, const CallSite& site);

// atom.add.gpu: returns the old value. Wakes those who wait below.
std::uint32_t GlobalAtomicAdd(std::uint32_t* address, std::uint32_t value, const CallSite& site);

// st.release.gpu. Wakes those who wait below.
void GlobalStoreRelease(std::uint32_t* address, std::uint32_t value, const CallSite& site);

// ld.acquire.gpu until the value is at least `value`, as counters of finished parts
// are waited for. What it orders is global memory, which the checker does not follow.
void GlobalWaitAtLeast(const std::uint32_t* address, std::uint32_t value, const CallSite& site);

}  // namespace gemmd::emulator
