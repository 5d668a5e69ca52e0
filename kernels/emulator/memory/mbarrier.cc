#include "kernels/emulator/memory/mbarrier.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"
#include "kernels/emulator/machine/peers.h"
#include "kernels/emulator/memory/happens_before.h"
#include "kernels/emulator/memory/mbarrier_engine.h"

namespace gemmd::emulator {
namespace {

constexpr const char* kArriveExpect = "mbarrier.arrive.expect_tx";
constexpr std::uint32_t kObjectBytes = 8;
constexpr std::uint32_t kMaxCount = (1u << 20) - 1;
constexpr std::int64_t kMaxTransactionBytes = (1 << 20) - 1;

std::map<std::uint32_t, Mbarrier>& ObjectsAt(Cluster& cluster, std::uint32_t address) {
  return cluster.blocks[RankOf(address)].mbarriers;
}

enum class View { kGeneric, kAsyncProxy };

Mbarrier& Find(std::uint32_t address, View view, const char* what, const CallSite& site) {
  SharedBytes(address, kObjectBytes, kObjectBytes, what, site);
  Thread& thread = CurrentThread();
  Cluster& cluster = *thread.block->cluster;
  CheckStarted(BlockOfRank(cluster, RankOf(address)), what, site);
  auto& objects = ObjectsAt(cluster, address);
  const auto found = objects.find(address);
  if (found == objects.end()) {
    Fail(Violation::kMbarrierProtocol, site,
         absl::StrCat(what, ": no mbarrier was initialised at ", DescribeShared(address)));
  }
  Mbarrier& object = found->second;
  if (!CurrentGrid().options.check_order) return object;
  if (thread.knows.generic[object.initialiser] < object.initialised_at) {
    Fail(Violation::kRace, site,
         absl::StrCat(what, ": the initialisation of ", DescribeShared(address),
                      " is not ordered before this"));
  }
  if (view == View::kAsyncProxy &&
      thread.knows.mbarrier_init[object.initialiser] < object.initialised_at) {
    Fail(Violation::kMissingFence, site,
         absl::StrCat(what, ": the initialisation of ", DescribeShared(address),
                      " is not visible to the async proxy (fence.mbarrier_init)"));
  }
  return object;
}

// Flips the phase where nothing is pending.
void Update(Mbarrier& object, std::uint32_t address, const CallSite& site) {
  if (object.pending < 0) {
    Fail(Violation::kMbarrierProtocol, site,
         absl::StrCat(DescribeShared(address), " gets more arrivals than its count of ",
                      object.count));
  }
  if (std::abs(object.transaction_bytes) > kMaxTransactionBytes) {
    Fail(Violation::kMbarrierProtocol, site,
         absl::StrCat(DescribeShared(address), " expects ", object.transaction_bytes, " bytes"));
  }
  if (object.pending != 0 || object.transaction_bytes != 0) return;
  if (object.bytes_in_flight != 0) {
    Fail(Violation::kMbarrierProtocol, site,
         absl::StrCat(DescribeShared(address), " completes its phase while ",
                      object.bytes_in_flight, " bytes are still to land on it"));
  }
  ++object.phase;
  object.pending = object.count;
  object.collecting.generic.Raise(object.agent, object.phase);
  object.completed.Join(object.collecting);
  object.collecting.Clear();
  object.completed_cluster.Join(object.collecting_cluster);
  object.collecting_cluster.Clear();
  for (Thread* thread : std::exchange(object.waiting, {})) Wake(*thread);
}

enum class Scope { kBlock, kCluster };

void Arrive(Mbarrier& object, std::uint32_t address, Scope scope, const CallSite& site) {
  Thread& thread = CurrentThread();
  if (RankOf(address) != thread.block->rank) {
    thread.block->cluster->blocks[RankOf(address)].remote_arrivals[thread.agent] = thread.step();
    object.collecting.JoinFinished(thread.knows);
    if (scope == Scope::kCluster) object.collecting_cluster.Join(thread.knows);
  } else {
    object.collecting.Join(thread.knows);
  }
  BeginStep(thread);
  --object.pending;
  Update(object, address, site);
}

bool IsComplete(const Mbarrier& object, std::uint32_t parity) { return object.phase % 2 != parity; }

// Acquires what the latest completed phase released. The thread must know of every phase before
// that one: by parity alone it cannot tell that it waited for the wrong phase.
void Acquire(const Mbarrier& object, std::uint32_t address, std::uint32_t parity, Scope scope,
             const CallSite& site) {
  Thread& thread = CurrentThread();
  const Step known =
      std::max(thread.knows.generic[object.agent], thread.knows.finished[object.agent]);
  if (CurrentGrid().options.check_order && object.phase > known + 1) {
    Fail(Violation::kMbarrierProtocol, site,
         absl::StrCat("a wait for parity ", parity, " of ", DescribeShared(address), " sees phase ",
                      object.phase, ", and the thread knows only of ", known));
  }
  thread.knows.Join(object.completed);
  if (scope == Scope::kCluster) thread.knows.Join(object.completed_cluster);
}

Mbarrier& FindForWait(std::uint32_t address, std::uint32_t parity, const CallSite& site) {
  const char* what = "mbarrier.try_wait";
  if (parity > 1) Fail(Violation::kBadOperand, site, absl::StrCat(what, " of parity ", parity));
  OwnSharedBytes(address, kObjectBytes, kObjectBytes, what, site);
  return Find(address, View::kGeneric, what, site);
}

void Wait(std::uint32_t address, std::uint32_t parity, Scope scope, const CallSite& site) {
  if (IsSkipped(site)) return;
  Mbarrier& object = FindForWait(address, parity, site);
  while (!IsComplete(object, parity)) {
    object.waiting.push_back(&CurrentThread());
    BlockCurrent({"mbarrier", site, true, address, parity});
  }
  Acquire(object, address, parity, scope, site);
}

}  // namespace

void MbarrierInit(std::uint32_t address, std::uint32_t count, const CallSite& site) {
  const char* what = "mbarrier.init";
  OwnSharedBytes(address, kObjectBytes, kObjectBytes, what, site);
  if (count == 0 || count > kMaxCount) {
    Fail(Violation::kBadOperand, site, absl::StrCat(what, " with a count of ", count));
  }
  Thread& thread = CurrentThread();
  auto& objects = ObjectsAt(*thread.block->cluster, address);
  if (objects.count(address) > 0) {
    Fail(Violation::kMbarrierProtocol, site,
         absl::StrCat(what, " of a live object at ", DescribeShared(address)));
  }
  ClaimForMbarrier(address, site);
  Mbarrier& object = objects[address];
  object.agent = NewAgent(*thread.block->cluster);
  object.count = count;
  object.pending = count;
  object.initialiser = thread.agent;
  object.initialised_at = thread.step();
}

void MbarrierArrive(std::uint32_t address, const CallSite& site) {
  if (IsSkipped(site)) return;
  const char* what = "mbarrier.arrive";
  OwnSharedBytes(address, kObjectBytes, kObjectBytes, what, site);
  Arrive(Find(address, View::kGeneric, what, site), address, Scope::kBlock, site);
}

void MbarrierArriveRemote(std::uint32_t address, const CallSite& site) {
  if (IsSkipped(site)) return;
  Arrive(Find(address, View::kGeneric, "mbarrier.arrive", site), address, Scope::kBlock, site);
}

void MbarrierArriveCluster(std::uint32_t address, const CallSite& site) {
  if (IsSkipped(site)) return;
  Arrive(Find(address, View::kGeneric, "mbarrier.arrive", site), address, Scope::kCluster, site);
}

void MbarrierArriveExpect(std::uint32_t address, std::uint32_t bytes, const CallSite& site) {
  OwnSharedBytes(address, kObjectBytes, kObjectBytes, kArriveExpect, site);
  MbarrierArriveExpectRemote(address, bytes, site);
}

void MbarrierArriveExpectRemote(std::uint32_t address, std::uint32_t bytes, const CallSite& site) {
  if (IsSkipped(site)) return;
  Mbarrier& object = Find(address, View::kGeneric, kArriveExpect, site);
  object.transaction_bytes += bytes;
  Arrive(object, address, Scope::kBlock, site);
}

bool MbarrierTryWait(std::uint32_t address, std::uint32_t parity, const CallSite& site) {
  Mbarrier& object = FindForWait(address, parity, site);
  if (!IsComplete(object, parity)) {
    YieldCurrent();
    return false;
  }
  Acquire(object, address, parity, Scope::kBlock, site);
  return true;
}

void MbarrierWait(std::uint32_t address, std::uint32_t parity, const CallSite& site) {
  Wait(address, parity, Scope::kBlock, site);
}

void MbarrierWaitCluster(std::uint32_t address, std::uint32_t parity, const CallSite& site) {
  Wait(address, parity, Scope::kCluster, site);
}

void FenceMbarrierInit(const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  thread.knows.mbarrier_init = thread.knows.generic;
  BeginStep(thread);
}

void FenceProxyAsync(const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  thread.knows.mbarrier_init = thread.knows.generic;
  thread.knows.async_proxy = thread.knows.generic;
  BeginStep(thread);
}

Mbarrier& BeginTransaction(std::uint32_t address, std::uint32_t bytes, const CallSite& site) {
  Mbarrier& object = Find(address, View::kAsyncProxy, "a bulk copy's mbarrier", site);
  object.bytes_in_flight += bytes;
  return object;
}

void BeginArrival(std::uint32_t address, const CallSite& site) {
  Find(address, View::kAsyncProxy, "a tcgen05.commit's mbarrier", site);
}

void CompleteArrival(Cluster& cluster, std::uint32_t address, const EngineArrival& arrival,
                     const CallSite& site) {
  auto& objects = ObjectsAt(cluster, address);
  const auto found = objects.find(address);
  if (found == objects.end()) {
    Fail(Violation::kMbarrierProtocol, site, "a tcgen05.commit arrives after its mbarrier is gone");
  }
  Mbarrier& object = found->second;
  object.collecting.JoinFinished(arrival.before);
  object.collecting.generic.Raise(arrival.agent, arrival.done);
  cluster.blocks[RankOf(address)].committed_phases[object.agent] = object.phase + 1;
  --object.pending;
  Update(object, address, site);
}

void CompleteTransaction(Cluster& cluster, std::uint32_t address, std::uint32_t bytes,
                         const CallSite& site) {
  auto& objects = ObjectsAt(cluster, address);
  const auto found = objects.find(address);
  if (found == objects.end()) {
    Fail(Violation::kMbarrierProtocol, site, "a bulk copy lands after its mbarrier is gone");
  }
  Mbarrier& object = found->second;
  object.bytes_in_flight -= bytes;
  object.transaction_bytes -= bytes;
  Update(object, address, site);
}

}  // namespace gemmd::emulator
