// Rules of what sm_90 added: other blocks' shared memory, registers that move between
// warpgroups, launches that overlap, prefetches; each kept and each broken, on 20 seeds.
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/cluster_memory.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/registers.h"
#include "kernels/ptx/tensor_copy.h"
#include "kernels/ptx/wgmma.h"
#include "tests/kernels/emulator/rule.h"

namespace gemmd::testing {
namespace {

// ------------------------------------------------------------ other blocks' shared memory

enum class RemoteFault { kNone, kNoStartBarrier, kNoBarrierBeforeRead, kNoEndBarrier };

// Each block stores into the other's shared memory, and reads what it was given; then it
// reads what it gave.
void ExchangeWords(RemoteFault fault) {
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t other = 1 - ptx::RankInCluster();
  const ptx::SharedAddress remote = ptx::MapShared(Word(thread), other);
  if (fault != RemoteFault::kNoStartBarrier) ptx::ClusterSync();
  ptx::StoreSharedRemote(remote, 100 * other + thread);
  if (fault != RemoteFault::kNoBarrierBeforeRead) ptx::ClusterSync();
  const auto mine = ptx::LoadShared<std::uint32_t>(Word(thread));
  const auto given = ptx::LoadSharedRemote<std::uint32_t>(remote);
  const bool is_right =
      mine == 100 * ptx::RankInCluster() + thread && given == 100 * other + thread;
  if (!is_right) ptx::LoadShared<std::uint32_t>(0);
  if (fault != RemoteFault::kNoEndBarrier) ptx::ClusterSync();
}

Launching InPairs() {
  Launching launching;
  launching.blocks = 2;
  launching.cluster = 2;
  return launching;
}

TEST(RemoteStores, AreOrderedByClusterBarriers) {
  ExpectNothing([] { ExchangeWords(RemoteFault::kNone); }, InPairs());
}

TEST(RemoteStores, WaitForTheOtherBlockToStart) {
  ExpectViolation(
      Violation::kRace, [] { ExchangeWords(RemoteFault::kNoStartBarrier); }, InPairs());
}

TEST(RemoteStores, AreNotSeenBeforeABarrier) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching launching = InPairs();
    launching.options.seed = seed;
    const Violation violation =
        RunRule([] { ExchangeWords(RemoteFault::kNoBarrierBeforeRead); }, launching).violation;
    // The other block's store may come first, or not have come yet.
    EXPECT_TRUE(violation == Violation::kRace || violation == Violation::kUnwritten);
  }
}

TEST(RemoteStores, EndBeforeTheOtherBlockDoes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching launching = InPairs();
    launching.options.seed = seed;
    const Violation violation =
        RunRule([] { ExchangeWords(RemoteFault::kNoEndBarrier); }, launching).violation;
    EXPECT_TRUE(violation == Violation::kRace || violation == Violation::kUnfinished);
  }
}

TEST(RemoteStores, MayBeOrderedByAnMbarrier) {
  enum class Fault { kNone, kNoWait, kBlockScopeArrival, kBlockScopeWait };
  const auto pass = [](Fault fault) {
    const std::uint32_t rank = ptx::RankInCluster();
    const std::uint32_t thread = ptx::ThreadIndex();
    if (thread == 0) {
      ptx::MbarrierInit(Word(512), 64);
      ptx::FenceMbarrierInit();
    }
    ptx::ClusterSync();
    if (rank == 0) {
      ptx::StoreSharedRemote(ptx::MapShared(Word(thread), 1), thread);
      const ptx::SharedAddress arrived = ptx::MapShared(Word(512), 1);
      if (fault == Fault::kBlockScopeArrival) {
        ptx::MbarrierArriveRemote(arrived);
      } else {
        ptx::MbarrierArriveCluster(arrived);
      }
    } else {
      if (fault == Fault::kBlockScopeWait) {
        ptx::MbarrierWait(Word(512), 0);
      } else if (fault != Fault::kNoWait) {
        ptx::MbarrierWaitCluster(Word(512), 0);
      }
      ptx::LoadShared<std::uint32_t>(Word(63 - thread));
    }
    ptx::ClusterSync();
  };
  ExpectNothing([&] { pass(Fault::kNone); }, InPairs());
  ExpectViolation(
      Violation::kRace, [&] { pass(Fault::kBlockScopeArrival); }, InPairs());
  ExpectViolation(
      Violation::kRace, [&] { pass(Fault::kBlockScopeWait); }, InPairs());
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching launching = InPairs();
    launching.options.seed = seed;
    EXPECT_FALSE(RunRule([&] { pass(Fault::kNoWait); }, launching).ok());
  }
}

// Only stores need the cluster's scope: after an arrival of the block's scope a block may write
// again where another has read.
TEST(RemoteReads, MayBeEndedByAnArrivalOfTheBlocksScope) {
  const auto overwrite = [](bool waits) {
    const std::uint32_t rank = ptx::RankInCluster();
    const std::uint32_t thread = ptx::ThreadIndex();
    if (thread == 0) {
      ptx::MbarrierInit(Word(512), 64);
      ptx::FenceMbarrierInit();
    }
    if (rank == 1) ptx::StoreShared(Word(thread), thread);
    ptx::ClusterSync();
    if (rank == 0) {
      ptx::LoadSharedRemote<std::uint32_t>(ptx::MapShared(Word(thread), 1));
      ptx::MbarrierArriveRemote(ptx::MapShared(Word(512), 1));
    } else {
      if (waits) ptx::MbarrierWait(Word(512), 0);
      ptx::StoreShared(Word(63 - thread), thread);
    }
    ptx::ClusterSync();
  };
  ExpectNothing([&] { overwrite(true); }, InPairs());
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching launching = InPairs();
    launching.options.seed = seed;
    EXPECT_EQ(RunRule([&] { overwrite(false); }, launching).violation, Violation::kRace);
  }
}

// ------------------------------------------------------------ setmaxnreg

Launching Warpgroups(std::uint32_t count) {
  Launching launching;
  launching.threads = 128 * count;
  return launching;
}

bool IsProducer() { return ptx::ThreadIndex() < 128; }

TEST(Registers, PassFromOneWarpgroupToOthers) {
  // 168 a thread at launch: 128 are given back, 64 go to each of the others.
  ExpectNothing(
      [] {
        if (IsProducer()) {
          ptx::DecreaseRegisters<40>();
        } else {
          ptx::IncreaseRegisters<232>();
        }
      },
      Warpgroups(3));
}

TEST(Registers, NeverComeFromNowhere) {
  ExpectViolation(
      Violation::kDeadlock,
      [] {
        if (IsProducer()) {
          ptx::DecreaseRegisters<40>();
        } else {
          ptx::IncreaseRegisters<240>();
        }
      },
      Warpgroups(3));
}

TEST(Registers, AreGivenInMultiplesOfEight) {
  ExpectViolation(
      Violation::kBadOperand, [] { ptx::DecreaseRegisters<100>(); }, Warpgroups(1));
  ExpectViolation(
      Violation::kBadOperand, [] { ptx::DecreaseRegisters<16>(); }, Warpgroups(1));
  Launching half;
  ExpectViolation(
      Violation::kBadOperand, [] { ptx::DecreaseRegisters<64>(); }, half);
}

TEST(Registers, IncreaseUpwardsAndDecreaseDownwards) {
  ExpectViolation(
      Violation::kBadOperand, [] { ptx::IncreaseRegisters<64>(); }, Warpgroups(4));
  ExpectViolation(
      Violation::kBadOperand, [] { ptx::DecreaseRegisters<200>(); }, Warpgroups(4));
}

TEST(Registers, AreSetByWholeWarpgroups) {
  ExpectViolation(
      Violation::kDivergedCollective,
      [] {
        if (ptx::ThreadIndex() / 32 == 2) {
          ptx::WgmmaFence();
        } else {
          ptx::DecreaseRegisters<64>();
        }
      },
      Warpgroups(1));
  ExpectViolation(
      Violation::kDeadlock,
      [] {
        if (ptx::ThreadIndex() / 32 != 2) ptx::DecreaseRegisters<64>();
      },
      Warpgroups(1));
}

TEST(Registers, AreSetAgainOnlyAfterABarrier) {
  const auto twice = [](bool syncs) {
    ptx::DecreaseRegisters<64>();
    if (syncs) ptx::NamedBarrierSync(1 + ptx::ThreadIndex() / 128, 128);
    ptx::DecreaseRegisters<40>();
  };
  ExpectNothing([&] { twice(true); }, Warpgroups(2));
  ExpectViolation(
      Violation::kRace, [&] { twice(false); }, Warpgroups(2));
}

// ------------------------------------------------------------ launches that overlap

TEST(OverlappingLaunches, WaitBeforeTheyTouchWhatIsNotSettled) {
  static std::uint32_t input[64];
  static std::uint32_t weights[64];
  static std::uint32_t output[64];
  Launching launching;
  launching.overlaps_preceding = true;
  launching.buffers = {{input, sizeof input, "input", true, false},
                       {weights, sizeof weights, "weights", true, true},
                       {output, sizeof output, "output", false, false}};
  const auto kernel = [](bool waits, bool syncs) {
    const std::uint32_t thread = ptx::ThreadIndex();
    const std::uint32_t weight = ptx::LoadGlobal(weights + thread);
    // One thread's wait is enough for those it synchronises with.
    if (waits && thread == 0) ptx::WaitForPrecedingGrid();
    if (syncs) ptx::SyncThreads();
    ptx::StoreGlobal(output + thread, weight + ptx::LoadGlobal(input + thread));
    ptx::LaunchDependentGrid();
  };
  ExpectNothing([&] { kernel(true, true); }, launching);
  ExpectViolation(
      Violation::kRace, [&] { kernel(false, true); }, launching);
  ExpectViolation(
      Violation::kRace, [&] { kernel(true, false); }, launching);
  launching.overlaps_preceding = false;
  ExpectNothing([&] { kernel(false, false); }, launching);
}

// ------------------------------------------------------------ prefetches

TEST(Prefetches, NameMemoryAndMapsThatExist) {
  alignas(128) static std::uint16_t matrix[64 * 64];
  ptx::TensorMapSpec spec;
  spec.base = matrix;
  spec.element = ptx::TensorElement::kF16;
  spec.size[0] = spec.size[1] = 64;
  spec.stride_bytes[1] = 128;
  spec.box[0] = spec.box[1] = 64;
  static const ptx::TensorMap map = *ptx::MakeTensorMap(spec);
  Launching launching;
  launching.buffers = {{matrix, sizeof matrix, "matrix", true}};
  ExpectNothing(
      [] {
        ptx::PrefetchTensorMap(&map);
        ptx::TensorPrefetch2D(&map, 8, 3);
      },
      launching);
  ExpectViolation(
      Violation::kBadOperand, [] { ptx::PrefetchTensorMap(nullptr); }, launching);
  ExpectViolation(
      Violation::kMisaligned, [] { ptx::TensorPrefetch2D(&map, 3, 0); }, launching);
}

// ------------------------------------------------------------ wgmma with A in registers

enum class FragmentFault { kNone, kNoFence, kWrittenBeforeWait };

void MultiplyFragments(FragmentFault fault) {
  for (std::uint32_t i = ptx::ThreadIndex(); i < 64 * 16 / 2; i += 128) {
    ptx::StoreShared(Word(i), 0x3c003c00u);
  }
  ptx::FenceProxyAsync();
  ptx::SyncThreads();
  std::uint32_t a[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00};
  float sum[4] = {0, 0, 0, 0};
  const std::uint64_t b = ptx::MakeWgmmaDescriptor(Word(0), 128, 256, ptx::Swizzle::kNone);
  for (int step = 0; step < 2; ++step) {
    if (fault != FragmentFault::kNoFence) ptx::WgmmaFence();
    ptx::WgmmaRegisters<ptx::WgmmaType::kF16, 8>(sum, a, b, true);
    ptx::WgmmaCommit();
    if (fault == FragmentFault::kWrittenBeforeWait) a[1] = 0;
    ptx::WgmmaWait<0>();
    a[2] = 0x40004000;
  }
  if (sum[0] != 48 && sum[0] != 40) ptx::LoadShared<std::uint32_t>(0);
}

TEST(WgmmaFragments, StayAsTheyAreUntilTheWait) {
  ExpectNothing([] { MultiplyFragments(FragmentFault::kNone); }, Warpgroups(1));
  ExpectViolation(
      Violation::kMissingFence, [] { MultiplyFragments(FragmentFault::kNoFence); }, Warpgroups(1));
  ExpectViolation(
      Violation::kRace, [] { MultiplyFragments(FragmentFault::kWrittenBeforeWait); },
      Warpgroups(1));
}

}  // namespace
}  // namespace gemmd::testing
