// The side of an mbarrier that bulk copies and tcgen05.commit see.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

// The object that a bulk copy of the running thread will complete `bytes` on. Its
// initialisation must be visible to the async proxy.
Mbarrier& BeginTransaction(std::uint32_t address, std::uint32_t bytes, const CallSite& site);

// The copy has landed. May be called outside any fiber.
void CompleteTransaction(Cluster& cluster, std::uint32_t address, std::uint32_t bytes,
                         const CallSite& site);

// An arrival that comes when `done` of the steps of `agent` are over.
struct EngineArrival {
  Agent agent;
  Step done;
  // The steps that are over by then: all that the issuing thread knew, except its own.
  Knowledge before;
};

// The running thread issues an arrival at the object, whose initialisation must be visible to the
// async proxy.
void BeginArrival(std::uint32_t address, const CallSite& site);

// The arrival comes. The object's block must not exit before a thread of it knows of the phase that
// has it. May be called outside any fiber.
void CompleteArrival(Cluster& cluster, std::uint32_t address, const EngineArrival& arrival,
                     const CallSite& site);

}  // namespace gemmd::emulator
