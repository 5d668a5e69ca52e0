// Each rule of the emulator, broken by the smallest kernel that breaks it, and the same
// kernel without the fault.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/copy_async.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/shared_memory.h"
#include "tests/kernels/emulator/rule.h"

namespace gemmd::testing {
namespace {

TEST(SharedMemory, MayBePassedAcrossABarrier) {
  ExpectNothing([] {
    ptx::StoreShared(Word(ptx::ThreadIndex()), ptx::ThreadIndex());
    ptx::SyncThreads();
    const auto read = ptx::LoadShared<std::uint32_t>(Word(63 - ptx::ThreadIndex()));
    if (read != 63 - ptx::ThreadIndex()) ptx::LoadShared<std::uint32_t>(0);
  });
}

TEST(SharedMemory, MayNotBePassedWithoutOne) {
  ExpectViolation(Violation::kRace, [] {
    if (ptx::ThreadIndex() < 32) ptx::StoreShared(Word(0), 7u + ptx::ThreadIndex());
  });
  ExpectViolation(Violation::kRace, [] {
    ptx::StoreShared(Word(ptx::ThreadIndex()), 7u);
    ptx::SyncThreads();
    ptx::LoadShared<std::uint32_t>(Word(0));
    if (ptx::ThreadIndex() == 40) ptx::StoreShared(Word(0), 8u);
    ptx::LoadShared<std::uint32_t>(Word(0));
  });
}

TEST(SharedMemory, MayNotBeReadBeforeItIsWritten) {
  ExpectViolation(Violation::kUnwritten, [] { ptx::LoadShared<std::uint32_t>(Word(1)); });
}

TEST(SharedMemory, HasBoundsAndAlignment) {
  ExpectViolation(Violation::kOutOfBounds,
                  [] { ptx::StoreShared(Word(1024 + ptx::ThreadIndex()), 1u); });
  ExpectViolation(Violation::kMisaligned, [] {
    ptx::StoreShared(ptx::SharedBase() + 8 + 32 * ptx::ThreadIndex(), ptx::Vector4{1, 2, 3, 4});
  });
}

TEST(GlobalMemory, HasBoundsAlignmentAndReadOnlyBuffers) {
  alignas(16) std::uint32_t data[64] = {};
  Launching launching;
  launching.buffers = {{data, sizeof data, "data", false}};
  ExpectNothing([&] { ptx::StoreGlobal(data + ptx::ThreadIndex(), 1u); }, launching);
  ExpectViolation(
      Violation::kOutOfBounds, [&] { ptx::StoreGlobal(data + 1 + ptx::ThreadIndex(), 1u); },
      launching);
  ExpectViolation(
      Violation::kMisaligned,
      [&] { ptx::LoadGlobal(reinterpret_cast<const ptx::Vector4*>(data + 1)); }, launching);
  launching.buffers[0].read_only = true;
  ExpectViolation(
      Violation::kReadOnly, [&] { ptx::StoreGlobal(data + ptx::ThreadIndex(), 1u); }, launching);
}

TEST(CopyAsync, LandsAtItsWaitAndNotBefore) {
  alignas(16) static std::uint32_t data[256];
  for (std::uint32_t i = 0; i < 256; ++i) data[i] = i;
  Launching launching;
  launching.buffers = {{data, sizeof data, "data", true}};
  const auto copy = [](bool waits, bool syncs) {
    const std::uint32_t thread = ptx::ThreadIndex();
    ptx::CopyAsync16(Word(4 * thread), data + std::size_t{4} * thread, 16);
    ptx::CopyAsyncCommit();
    if (waits) ptx::CopyAsyncWait<0>();
    if (syncs) ptx::SyncThreads();
    ptx::LoadShared<ptx::Vector4>(Word(4 * (63 - thread)));
    if (!waits) ptx::CopyAsyncWait<0>();
  };
  ExpectNothing([&] { copy(true, true); }, launching);
  ExpectViolation(
      Violation::kNotLanded, [&] { copy(false, true); }, launching);
  ExpectViolation(
      Violation::kUnfinished, [&] { ptx::CopyAsync16(Word(4 * ptx::ThreadIndex()), data, 16); },
      launching);
}

TEST(CopyAsync, FillsWithZerosBehindItsBytes) {
  alignas(16) static std::uint32_t data[4] = {1, 2, 3, 4};
  Launching launching;
  launching.threads = 32;
  launching.buffers = {{data, 6, "data", true}};  // no more than the six bytes read
  ExpectNothing(
      [] {
        ptx::CopyAsync16(Word(4 * ptx::ThreadIndex()), data, 6);
        ptx::CopyAsyncCommit();
        ptx::CopyAsyncWait<0>();
        const auto value = ptx::LoadShared<ptx::Vector4>(Word(4 * ptx::ThreadIndex()));
        const bool is_right = value.x == 1 && value.y == 2 && value.z == 0 && value.w == 0;
        if (!is_right) ptx::LoadShared<std::uint32_t>(0);
      },
      launching);
}

TEST(Barriers, MustAgreeOnTheirCount) {
  Launching launching;
  launching.threads = 128;
  ExpectViolation(
      Violation::kBarrierMismatch,
      [] { ptx::NamedBarrierSync(1, ptx::ThreadIndex() < 64 ? 128 : 96); }, launching);
  ExpectViolation(Violation::kBadOperand, [] { ptx::NamedBarrierSync(16, 64); });
}

TEST(Barriers, NotReachedByAllAreADeadlock) {
  ExpectViolation(Violation::kDeadlock, [] {
    if (ptx::ThreadIndex() != 5) ptx::SyncThreads();
  });
}

TEST(Barriers, ArrivalsOrderWhatPrecedesThem) {
  const auto pass = [](bool arrives_late) {
    const bool is_first = ptx::ThreadIndex() < 32;
    if (is_first) {
      if (arrives_late) ptx::NamedBarrierArrive(2, 64);
      ptx::StoreShared(Word(ptx::ThreadIndex()), 1u);
      if (!arrives_late) ptx::NamedBarrierArrive(2, 64);
    } else {
      ptx::NamedBarrierSync(2, 64);
      ptx::LoadShared<std::uint32_t>(Word(ptx::ThreadIndex() - 32));
    }
  };
  ExpectNothing([&] { pass(false); });
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching launching;
    launching.options.seed = seed;
    const Violation violation = RunRule([&] { pass(true); }, launching).violation;
    // The store may come first, or not have come yet.
    EXPECT_TRUE(violation == Violation::kRace || violation == Violation::kUnwritten);
  }
}

TEST(Collectives, MustMeetAtOnePlace) {
  ExpectViolation(Violation::kDivergedCollective, [] {
    if (ptx::LaneIndex() == 3) {
      ptx::ElectOne();
    } else {
      ptx::Shuffle(1, 0);
    }
  });
}

TEST(Collectives, OrderNoMemoryExceptTheWarpBarrier) {
  const auto pass = [](bool syncs) {
    const std::uint32_t warp = ptx::ThreadIndex() / 32 * 32;
    ptx::StoreShared(Word(ptx::ThreadIndex()), 1u);
    if (syncs) ptx::SyncWarp();
    ptx::ElectOne();
    ptx::LoadShared<std::uint32_t>(Word(warp + (ptx::LaneIndex() + 1) % 32));
  };
  ExpectNothing([&] { pass(true); });
  ExpectViolation(Violation::kRace, [&] { pass(false); });
}

TEST(Mbarriers, FollowTheirProtocol) {
  ExpectViolation(Violation::kMbarrierProtocol, [] { ptx::MbarrierArrive(Word(0)); });
  ExpectViolation(Violation::kMbarrierProtocol, [] {
    if (ptx::ThreadIndex() == 0) {
      ptx::MbarrierInit(Word(0), 1);
      ptx::MbarrierInit(Word(0), 1);
    }
  });
  ExpectViolation(Violation::kMbarrierProtocol, [] {
    if (ptx::ThreadIndex() == 0) {
      ptx::MbarrierInit(Word(0), 1);
      ptx::StoreShared(Word(1), 1u);
    }
  });
  ExpectViolation(Violation::kMisaligned, [] { ptx::MbarrierInit(Word(1), 1); });
}

TEST(Mbarriers, AWaitMayNotMissAPhase) {
  const auto two_phases = [](bool waits_for_first) {
    const std::uint32_t thread = ptx::ThreadIndex();
    if (thread == 0) ptx::MbarrierInit(Word(0), 1);
    ptx::SyncThreads();
    if (thread == 0) ptx::MbarrierArrive(Word(0));
    if (thread == 0 || waits_for_first) ptx::MbarrierWait(Word(0), 0);
    ptx::NamedBarrierSync(1, 64);
    if (thread == 0) ptx::MbarrierArrive(Word(0));
    ptx::MbarrierWait(Word(0), 1);
  };
  ExpectNothing([&] { two_phases(true); });
  // Knowing of the first phase through another barrier is as good as having waited.
  ExpectNothing([&] { two_phases(false); });
  ExpectViolation(Violation::kMbarrierProtocol, [] {
    const std::uint32_t thread = ptx::ThreadIndex();
    if (thread == 0) ptx::MbarrierInit(Word(0), 1);
    ptx::SyncThreads();
    for (int i = 0; i < 3 && thread == 0; ++i) ptx::MbarrierArrive(Word(0));
    ptx::NamedBarrierSync(1, 64);
    // The third phase has the parity of the first: the wait cannot tell them apart.
    if (thread == 32) ptx::MbarrierWait(Word(0), 0);
  });
}

TEST(Clusters, ReachOnlyTheirOwnBlocks) {
  Launching launching;
  launching.blocks = 2;
  launching.cluster = 2;
  ExpectViolation(
      Violation::kBadOperand, [] { ptx::MapShared(Word(0), 2); }, launching);
  ExpectViolation(
      Violation::kBadOperand,
      [] { ptx::StoreShared(ptx::MapShared(Word(0), 1 - ptx::RankInCluster()), 1u); }, launching);
}

// All blocks that the options name run at the same time, and no more.
TEST(Residency, IsOfAsManyClustersAsTheOptionsSay) {
  Launching launching;
  launching.blocks = 6;
  launching.options.turn_limit = 10000;
  // The emulator sees no access to what the host has. Each block waits until all six have begun.
  int begun = 0;
  const auto kernel = [&begun] {
    if (ptx::ThreadIndex() == 0) {
      ++begun;
      ptx::MbarrierInit(Word(0), 1);
      while (begun < 6) ptx::MbarrierTryWait(Word(0), 0);
    }
    ptx::SyncThreads();
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    launching.options.seed = seed;
    begun = 0;
    launching.options.resident_clusters = 6;
    ASSERT_TRUE(RunRule(kernel, launching).ok());
    begun = 0;
    launching.options.resident_clusters = 5;
    EXPECT_EQ(RunRule(kernel, launching).violation, Violation::kNoProgress);
    EXPECT_EQ(begun, 5);
  }
}

TEST(Launches, HaveLimits) {
  Launching launching;
  launching.threads = 48;
  EXPECT_EQ(RunRule([] {}, launching).violation, Violation::kBadLaunch);
  launching.threads = 64;
  launching.blocks = 3;
  launching.cluster = 2;
  EXPECT_EQ(RunRule([] {}, launching).violation, Violation::kBadLaunch);
}

TEST(Launches, ThatMakeNoProgressEnd) {
  Launching launching;
  launching.options.turn_limit = 10000;
  const emulator::Report report = RunRule(
      [] {
        if (ptx::ThreadIndex() == 0) ptx::MbarrierInit(Word(0), 1);
        ptx::SyncThreads();
        while (!ptx::MbarrierTryWait(Word(0), 0)) {
        }
      },
      launching);
  EXPECT_EQ(report.violation, Violation::kNoProgress);
}

}  // namespace
}  // namespace gemmd::testing
