// Barriers between the threads of a warp, a block and a cluster.
// PTX ISA, "Parallel Synchronization and Communication Instructions".
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

// bar.sync 0: every thread of the block, none of which may have exited.
void SyncThreads(const CallSite& site);

// bar.sync id, threads: waits until `threads` threads have synced or arrived. All must
// name the same count, a multiple of 32.
void NamedBarrierSync(std::uint32_t id, std::uint32_t threads, const CallSite& site);

// bar.arrive id, threads: counts the thread in and does not wait.
void NamedBarrierArrive(std::uint32_t id, std::uint32_t threads, const CallSite& site);

// bar.warp.sync: the only warp operation that orders its lanes' memory accesses.
void SyncWarp(const CallSite& site);

// elect.sync with a full mask: true in one lane, here the lowest.
bool ElectOne(const CallSite& site);

// shfl.sync.idx with a full mask.
std::uint32_t Shuffle(std::uint32_t value, std::uint32_t source_lane, const CallSite& site);

// vote.sync.any with a full mask.
bool AnyInWarp(bool says_so, const CallSite& site);

// barrier.cluster.arrive.release and .wait.acquire: every thread of the cluster.
void ClusterArrive(const CallSite& site);
void ClusterWait(const CallSite& site);

}  // namespace gemmd::emulator
