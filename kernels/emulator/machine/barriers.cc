#include "kernels/emulator/machine/barriers.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/collectives.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {
namespace {

// The thread's knowledge becomes part of the barrier's.
void Release(Thread& thread, Barrier& barrier) {
  barrier.joined.Join(thread.knows);
  BeginStep(thread);
}

// Everyone has arrived: waiters know what all knew.
void Complete(Barrier& barrier) {
  for (Thread* thread : barrier.waiting) {
    thread->knows.Join(barrier.joined);
    Wake(*thread);
  }
  barrier.waiting.clear();
  barrier.arrived = 0;
  barrier.joined.Clear();
  ++barrier.generation;
}

void Arrive(Barrier& barrier, std::uint32_t expected, const char* name, const CallSite& site) {
  if (barrier.arrived > 0 && barrier.expected != expected) {
    Fail(Violation::kBarrierMismatch, site,
         absl::StrCat(name, " of ", expected, " threads, others said ", barrier.expected));
  }
  barrier.expected = expected;
  ++barrier.arrived;
  Release(CurrentThread(), barrier);
}

void Sync(Barrier& barrier, std::uint32_t expected, const char* name, const CallSite& site) {
  Arrive(barrier, expected, name, site);
  barrier.waiting.push_back(&CurrentThread());
  if (barrier.arrived == expected) {
    Complete(barrier);
    return;
  }
  BlockCurrent({name, site, false, 0, expected});
}

Barrier& Named(std::uint32_t id, std::uint32_t threads, const CallSite& site) {
  const Block& block = *CurrentThread().block;
  const auto in_block =
      static_cast<std::uint32_t>(block.cluster->threads.size() / block.cluster->blocks.size());
  if (id >= kNamedBarriers || threads == 0 || threads % kWarpSize != 0 || threads > in_block) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat("barrier ", id, " of ", threads, " threads in a block of ", in_block));
  }
  return CurrentThread().block->barriers[id];
}

}  // namespace

void SyncThreads(const CallSite& site) {
  if (IsSkipped(site)) return;
  Block& block = *CurrentThread().block;
  const auto threads =
      static_cast<std::uint32_t>(block.cluster->threads.size() / block.cluster->blocks.size());
  Sync(block.barriers[0], threads, "bar.sync 0", site);
}

void NamedBarrierSync(std::uint32_t id, std::uint32_t threads, const CallSite& site) {
  if (IsSkipped(site)) return;
  Sync(Named(id, threads, site), threads, "bar.sync", site);
}

void NamedBarrierArrive(std::uint32_t id, std::uint32_t threads, const CallSite& site) {
  if (IsSkipped(site)) return;
  Barrier& barrier = Named(id, threads, site);
  Arrive(barrier, threads, "bar.arrive", site);
  if (barrier.arrived == threads) Complete(barrier);
}

void SyncWarp(const CallSite& site) {
  if (IsSkipped(site)) return;
  WarpCollective("bar.warp.sync", nullptr, site, [](void* const*) {
    const Thread& last = CurrentThread();
    Thread* lanes = &last.block->cluster->threads[last.warp->first_agent];
    Knowledge joined;
    for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) joined.Join(lanes[lane].knows);
    for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) {
      lanes[lane].knows = joined;
      BeginStep(lanes[lane]);
    }
  });
}

bool ElectOne(const CallSite& site) {
  WarpCollective("elect.sync", nullptr, site, [](void* const*) {});
  return CurrentThread().lane == 0;
}

std::uint32_t Shuffle(std::uint32_t value, std::uint32_t source_lane, const CallSite& site) {
  struct Operand {
    std::uint32_t value;
    std::uint32_t source;
    std::uint32_t result;
  } operand{value, source_lane % kWarpSize, 0};
  WarpCollective("shfl.sync", &operand, site, [](void* const* operands) {
    for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) {
      auto* mine = static_cast<Operand*>(operands[lane]);
      mine->result = static_cast<const Operand*>(operands[mine->source])->value;
    }
  });
  return operand.result;
}

bool AnyInWarp(bool says_so, const CallSite& site) {
  WarpCollective("vote.sync", &says_so, site, [](void* const* operands) {
    bool any = false;
    for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) {
      any = any || *static_cast<const bool*>(operands[lane]);
    }
    for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) {
      *static_cast<bool*>(operands[lane]) = any;
    }
  });
  return says_so;
}

void ClusterArrive(const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  Cluster& cluster = *thread.block->cluster;
  if (thread.cluster_arrived) {
    Fail(Violation::kBarrierMismatch, site,
         "barrier.cluster.arrive twice without barrier.cluster.wait");
  }
  thread.cluster_arrived = true;
  thread.cluster_generation = cluster.barrier.generation;
  const auto threads = static_cast<std::uint32_t>(cluster.threads.size());
  Arrive(cluster.barrier, threads, "barrier.cluster.arrive", site);
  if (cluster.barrier.arrived < threads) return;
  // Nobody can arrive for the next generation before having waited for this one.
  cluster.barrier.completed = cluster.barrier.joined;
  Complete(cluster.barrier);
}

void ClusterWait(const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  Barrier& barrier = thread.block->cluster->barrier;
  if (!thread.cluster_arrived) {
    Fail(Violation::kBarrierMismatch, site, "barrier.cluster.wait without barrier.cluster.arrive");
  }
  if (barrier.generation == thread.cluster_generation) {
    barrier.waiting.push_back(&thread);
    BlockCurrent({"barrier.cluster.wait", site});
  }
  thread.knows.Join(barrier.completed);
  thread.cluster_arrived = false;
}

}  // namespace gemmd::emulator
