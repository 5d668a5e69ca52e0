// mbarrier objects. PTX ISA, "Parallel Synchronization and Communication Instructions:
// mbarrier": an object counts pending arrivals and pending transaction bytes; when both
// are zero its phase completes and the counts start again.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

struct Cluster;

void MbarrierInit(std::uint32_t address, std::uint32_t count, const CallSite& site);
// An arrival that releases at the block's scope, at an object of this block.
void MbarrierArrive(std::uint32_t address, const CallSite& site);
// An arrival that releases at the block's scope, at an object of any block of the cluster. That
// block must not exit before the arrival, which a cluster barrier has to ensure. Another block
// learns that accesses are over, and not what they wrote.
void MbarrierArriveRemote(std::uint32_t address, const CallSite& site);
// Arrives as above, and releases at the cluster's scope.
void MbarrierArriveCluster(std::uint32_t address, const CallSite& site);
// Arrives as above, in this block, after expecting `bytes` more.
void MbarrierArriveExpect(std::uint32_t address, std::uint32_t bytes, const CallSite& site);
// Arrives as MbarrierArriveRemote(), after expecting `bytes` more there.
void MbarrierArriveExpectRemote(std::uint32_t address, std::uint32_t bytes, const CallSite& site);

// Returns whether the phase of this parity has completed; if so, acquires what arrivals released.
bool MbarrierTryWait(std::uint32_t address, std::uint32_t parity, const CallSite& site);
void MbarrierWait(std::uint32_t address, std::uint32_t parity, const CallSite& site);
// Acquires what other blocks released at the cluster's scope, too.
void MbarrierWaitCluster(std::uint32_t address, std::uint32_t parity, const CallSite& site);

// fence.mbarrier_init.release.cluster and fence.proxy.async
void FenceMbarrierInit(const CallSite& site);
void FenceProxyAsync(const CallSite& site);

}  // namespace gemmd::emulator
