// Global memory with a shadow that finds races between the threads of one launch.
//
// Each byte of a writable buffer remembers who wrote and who read it last. The rules are
// those of shared memory (happens_before.h), with two differences:
//
//   access                     follows a generic write     follows an async-proxy write
//   generic read or write      in the generic view         in the generic view
//   async-proxy read or write  in the global async view    in the generic view
//
// where the global async view is what a fence.proxy.async of .global or of no state space
// brought up to date (a fence of .shared::cta does not); and between clusters, which share no
// barrier, nothing is ordered: no wrapper passes anything on through global memory. A bulk store
// has written at the cp.async.bulk.wait_group without .read.
//
// PTX ISA, "Memory Consistency Model: Causality order, Proxy-preserved base causality order";
// the table is this project's reading of it. Reads of a cp.async count at its issue.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

// An access that the running thread issues; it is done at `step` of `agent`.
struct GlobalUse {
  bool writes;
  bool is_async;
  Agent agent;
  Step step;
};

// Returns an access that the running thread does itself.
GlobalUse OwnGlobalUse(bool writes);

// The bytes must lie in one buffer, at a multiple of `alignment`, and be ordered.
void CheckGlobalUse(const void* address, std::uint64_t bytes, std::uint64_t alignment,
                    const GlobalUse& use, const char* what, const CallSite& site);

// fence.proxy.async over global memory, by the running thread.
void FenceGlobalProxy();

}  // namespace gemmd::emulator
