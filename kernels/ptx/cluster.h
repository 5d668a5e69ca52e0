// Clusters: blocks that reach each other's shared memory (sm_90).
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/machine/barriers.h"
#include "kernels/emulator/machine/cluster.h"
#include "kernels/emulator/machine/indices.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// %cluster_ctarank: this block's number in its cluster.
GEMMD_DEVICE std::uint32_t RankInCluster() {
  GEMMD_ON_DEVICE(std::uint32_t rank; asm volatile("mov.u32 %0, %%cluster_ctarank;"
                                                   : "=r"(rank));
                  return rank;)
  GEMMD_IN_EMULATOR(return emulator::RankInCluster();)
}

// mapa.shared::cluster.u32: where block `rank` has what this block has at `address`. PTX
// ISA, "Data Movement and Conversion Instructions: mapa".
GEMMD_DEVICE SharedAddress MapShared(SharedAddress address, std::uint32_t rank GEMMD_SITE) {
  GEMMD_ON_DEVICE(SharedAddress mapped; asm("mapa.shared::cluster.u32 %0, %1, %2;"
                                            : "=r"(mapped)
                                            : "r"(address), "r"(rank));
                  return mapped;)
  GEMMD_IN_EMULATOR(return emulator::MapShared(address, rank, site);)
}

// barrier.cluster.arrive.release and barrier.cluster.wait.acquire, .aligned: every thread
// of the cluster arrives, then waits. PTX ISA, "Parallel Synchronization and
// Communication Instructions: barrier.cluster".
GEMMD_DEVICE void ClusterArrive(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::ClusterArrive(site);)
}
GEMMD_DEVICE void ClusterWait(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("barrier.cluster.wait.aligned;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::ClusterWait(site);)
}

// A barrier of the whole cluster. One stands before the first instruction that reaches another
// block, so that the block runs, and one after the last, so that it still does.
GEMMD_DEVICE void ClusterSync(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(ClusterArrive(); ClusterWait();)
  GEMMD_IN_EMULATOR(emulator::ClusterArrive(site); emulator::ClusterWait(site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
