// Shared memory with a shadow that checks every access.
//
// Comparing results finds few races: most wrong interleavings still compute the right
// product. So each 4-byte cell remembers its last writer and every reader since, as
// (agent, step); each access must be ordered after those it conflicts with, by the
// clocks of clocks.h, in the view of the proxy it goes through:
//
//   access                     follows a generic write    follows an async-proxy write
//   generic read or write      in the generic view        in the generic view
//   async-proxy read or write  in the async-proxy view    in the generic view
//
// and a write must also follow every earlier read, in the generic view (an mbarrier or
// a bulk wait orders a read before a bulk write; no proxy fence is needed for that). For that,
// and for a bulk write after another, it is enough that the earlier access is over, as another
// block's MbarrierArriveRemote() says.
// PTX ISA, "Memory Consistency Model"; the table is this project's reading of it.
//
// A cell that cp.async is filling may not be touched before the issuing thread's wait;
// a cell that holds an mbarrier may not be touched as data.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

// Each function below ends the launch on a violation. `what` names the instruction.

// The bytes at [address, address + bytes): bounds, and `alignment` of the address.
// The block must not have exited.
std::uint8_t* SharedBytes(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment,
                          const char* what, const CallSite& site);

// Does as SharedBytes(), and the address must lie in the running thread's own block, as the state
// space .shared::cta demands.
std::uint8_t* OwnSharedBytes(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment,
                             const char* what, const CallSite& site);

// An access to the shared memory of any block of the cluster. Another block's must be known
// to have started, and must not exit before: a cluster barrier stands before the first use of
// another block's shared memory and one after the last. PTX ISA, "State Spaces: Shared State
// Space", .shared::cluster.
std::uint8_t* ClusterSharedBytes(std::uint32_t address, std::uint32_t bytes,
                                 std::uint32_t alignment, const char* what, const CallSite& site);

// The bytes without any check, for operations that were checked when they were issued.
std::uint8_t* LandedBytes(Cluster& cluster, std::uint32_t address);

// An access by the running thread through the generic proxy.
void CheckRead(std::uint32_t address, std::uint32_t bytes, const char* what, const CallSite& site);
void CheckWrite(std::uint32_t address, std::uint32_t bytes, const char* what, const CallSite& site);

// cp.async: from its issue to its wait no one else may touch the bytes.
void BeginCopy(std::uint32_t address, std::uint32_t bytes, const CallSite& site);
void FinishCopy(std::uint32_t address, std::uint32_t bytes, const CallSite& site);

// An access through the async proxy that the running thread issues; it is done at
// `step` of `agent`.
void CheckAsyncRead(std::uint32_t address, std::uint32_t bytes, Agent agent, Step step,
                    const char* what, const CallSite& site);
void CheckAsyncWrite(std::uint32_t address, std::uint32_t bytes, Agent agent, Step step,
                     const char* what, const CallSite& site);

// The cells become an mbarrier object.
void ClaimForMbarrier(std::uint32_t address, const CallSite& site);

}  // namespace gemmd::emulator
