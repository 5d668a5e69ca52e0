// The side of an mbarrier that bulk copies see.
#pragma once

#include <cstdint>

#include "kernels/emulator/call_site.h"
#include "kernels/emulator/machine.h"

namespace gemmd::emulator {

// The object that a bulk copy of the running thread will complete `bytes` on. Its
// initialisation must be visible to the async proxy.
Mbarrier& BeginTransaction(std::uint32_t address, std::uint32_t bytes, const CallSite& site);

// The copy has landed. May be called outside any fiber.
void CompleteTransaction(Cluster& cluster, std::uint32_t address, std::uint32_t bytes,
                         const CallSite& site);

}  // namespace gemmd::emulator
