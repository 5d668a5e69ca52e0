// Rules of tcgen05 and tensor memory, each kept and each broken, on 20 seeds.
#include <cstdint>
#include <string>

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "tests/kernels/emulator/rule.h"

namespace gemmd::testing {
namespace {

// The layout of a rule's 4096 bytes of shared memory: operands of core matrices without a swizzle,
// 64 lines of 32 bytes of zeros, then the slot and mbarriers.
constexpr std::uint32_t kSlot = 3072;
constexpr std::uint32_t kDone = 3080;
constexpr std::uint32_t kFree = 3088;
constexpr std::uint32_t kColumns = 32;

ptx::SharedAddress At(std::uint32_t offset) { return ptx::SharedBase() + offset; }

std::uint64_t Operand() {
  return ptx::MakeTcgen05Descriptor(ptx::SharedBase(), 1024, 128, ptx::Swizzle::kNone);
}

std::uint32_t Instruction(int rows = 64, int columns = 32) {
  ptx::Tcgen05Form form;
  form.rows = rows;
  form.columns = columns;
  return ptx::MakeTcgen05Instruction(form);
}

Launching OneWarp() {
  Launching launching;
  launching.threads = 32;
  return launching;
}

// The step that a case leaves out, or does wrong.
enum class Fault {
  kNone,
  kNoCommitWait,
  kNoFenceAfter,
  kNoWaitLoad,
  kNoFenceBefore,
  kNoBarrier,
  kNoDealloc,
  kForeignLanes,
  kForeignColumns,
  kAccumulateFirst,
  kNoProxyFence,
  kOtherColumns,
};

// Shared memory of zeros that tcgen05 sees, mbarriers, tensor memory. Returns its address.
template <int kGroup = 1>
ptx::TensorAddress Begin(Fault fault = Fault::kNone, std::uint32_t columns = kColumns) {
  const std::uint32_t thread = ptx::ThreadIndex();
  for (std::uint32_t word = thread; word < 512; word += 128) ptx::StoreShared(Word(word), 0u);
  if (thread == 0) {
    ptx::MbarrierInit(At(kDone), 1);
    ptx::MbarrierInit(At(kFree), 128);
  }
  if (fault != Fault::kNoProxyFence) ptx::FenceProxyAsync();
  ptx::FenceMbarrierInit();
  if (kGroup == 2) ptx::ClusterSync();
  if (thread / 32 == 0) ptx::Tcgen05Alloc<kGroup>(At(kSlot), columns);
  if (kGroup == 2) {
    ptx::ClusterSync();
  } else {
    ptx::SyncThreads();
  }
  return ptx::LoadShared<std::uint32_t>(At(kSlot));
}

template <int kGroup = 1>
void End(Fault fault, ptx::TensorAddress address, std::uint32_t columns = kColumns) {
  if (fault != Fault::kNoBarrier) ptx::SyncThreads();
  if (kGroup == 2) ptx::ClusterSync();
  if (fault == Fault::kNoDealloc || ptx::ThreadIndex() / 32 != 0) return;
  ptx::Tcgen05Dealloc<kGroup>(address, fault == Fault::kOtherColumns ? 64 : columns);
}

// A product by thread 0, its sums in everybody's registers.
void MultiplyAndLoad(Fault fault) {
  const std::uint32_t thread = ptx::ThreadIndex();
  const ptx::TensorAddress sums = Begin(fault);
  if (thread == 0) {
    ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(),
                         fault == Fault::kAccumulateFirst);
    ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(), true);
    ptx::Tcgen05Commit(At(kDone));
  }
  if (fault != Fault::kNoCommitWait) ptx::MbarrierWait(At(kDone), 0);
  if (fault != Fault::kNoFenceAfter) ptx::Tcgen05FenceAfter();
  std::uint32_t warp = thread / 32;
  if (fault == Fault::kForeignLanes) warp = (warp + 1) % 4;
  const std::uint32_t column = fault == Fault::kForeignColumns ? 16 : 0;
  std::uint32_t words[16];
  ptx::Tcgen05Load16x256b(words, sums + ptx::TensorLane(32 * warp) + column + (column > 0 ? 8 : 0));
  if (fault != Fault::kNoWaitLoad) ptx::Tcgen05WaitLoad();
  // NaN until the wait, zeros after it.
  if (words[15] != 0 && fault != Fault::kNoWaitLoad) ptx::LoadShared<std::uint32_t>(0);
  if (fault != Fault::kNoFenceBefore) ptx::Tcgen05FenceBefore();
  End(fault, sums);
  if (fault == Fault::kNoWaitLoad) ptx::Tcgen05WaitLoad();
}

Launching Warpgroup() {
  Launching launching;
  launching.threads = 128;
  return launching;
}

void ExpectFault(Violation violation, Fault fault) {
  ExpectViolation(
      violation, [fault] { MultiplyAndLoad(fault); }, Warpgroup());
}

TEST(Tcgen05, ProductsAreLoadedAfterTheirCommit) {
  for (const emulator::Landing landing :
       {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    Launching launching = Warpgroup();
    launching.options.landing = landing;
    ExpectNothing([] { MultiplyAndLoad(Fault::kNone); }, launching);
  }
  ExpectFault(Violation::kMissingFence, Fault::kNoFenceAfter);
  ExpectFault(Violation::kRace, Fault::kNoWaitLoad);
  ExpectFault(Violation::kRace, Fault::kNoFenceBefore);
  ExpectFault(Violation::kMissingFence, Fault::kNoProxyFence);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching launching = Warpgroup();
    launching.options.seed = seed;
    // The thread that comes first finds nothing, or what is not complete.
    const Violation violation =
        RunRule([] { MultiplyAndLoad(Fault::kNoCommitWait); }, launching).violation;
    EXPECT_TRUE(violation == Violation::kNotLanded || violation == Violation::kUnwritten);
    EXPECT_FALSE(RunRule([] { MultiplyAndLoad(Fault::kNoBarrier); }, launching).ok());
  }
}

TEST(Tcgen05, AWarpReachesItsQuarterOfTheLanes) {
  ExpectFault(Violation::kBadOperand, Fault::kForeignLanes);
}

TEST(Tcgen05, ColumnsAreAllocated) { ExpectFault(Violation::kOutOfBounds, Fault::kForeignColumns); }

TEST(Tcgen05, TheFirstProductHasNothingToAddTo) {
  ExpectFault(Violation::kUnwritten, Fault::kAccumulateFirst);
}

TEST(TensorMemory, IsGivenBackAsItWasTaken) {
  ExpectFault(Violation::kUnfinished, Fault::kNoDealloc);
  ExpectFault(Violation::kBadOperand, Fault::kOtherColumns);
}

TEST(TensorMemory, IsAllocatedInPowersOfTwo) {
  for (const std::uint32_t columns : {0u, 16u, 48u, 1024u}) {
    ExpectViolation(
        Violation::kBadOperand, [columns] { ptx::Tcgen05Alloc(At(kSlot), columns); }, OneWarp());
  }
}

TEST(TensorMemory, ItsAllocationIsKnownBeforeItIsUsed) {
  int races = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching launching;
    launching.options.seed = seed;
    const Violation violation = RunRule(
                                    [] {
                                      // The address is the first one there is.
                                      std::uint32_t words[1];
                                      if (ptx::ThreadIndex() / 32 == 0) {
                                        ptx::Tcgen05Alloc(At(kSlot), 32);
                                        ptx::SyncWarp();
                                        ptx::SyncWarp();
                                        ptx::Tcgen05Dealloc(0, 32);
                                      } else {
                                        ptx::Tcgen05Load32x32b(words, ptx::TensorLane(32));
                                      }
                                    },
                                    launching)
                                    .violation;
    EXPECT_TRUE(violation == Violation::kRace || violation == Violation::kOutOfBounds);
    races += violation == Violation::kRace;
  }
  EXPECT_GT(races, 0);
}

TEST(TensorMemory, NobodyAllocatesAfterRelinquishing) {
  ExpectViolation(
      Violation::kBadOperand,
      [] {
        ptx::Tcgen05Alloc(At(kSlot), 32);
        ptx::Tcgen05Relinquish();
        ptx::Tcgen05Alloc(At(kDone), 32);
      },
      OneWarp());
}

TEST(TensorMemory, AllocationsDoNotGrow) {
  ExpectViolation(
      Violation::kBadOperand,
      [] {
        ptx::Tcgen05Alloc(At(kSlot), 32);
        ptx::Tcgen05Alloc(At(kDone), 64);
      },
      OneWarp());
}

// A second warp waits until the first gives its columns back, or for ever.
void TakeTurns(bool gives_back) {
  const std::uint32_t warp = ptx::ThreadIndex() / 32;
  const ptx::SharedAddress slot = At(kSlot + 8 * warp);
  if (warp == 0) ptx::Tcgen05Alloc(slot, 512);
  ptx::SyncThreads();
  if (warp == 1) ptx::Tcgen05Alloc(slot, 32);
  ptx::SyncWarp();
  const auto address = ptx::LoadShared<std::uint32_t>(slot);
  if (warp == 0 && gives_back) ptx::Tcgen05Dealloc(address, 512);
  if (warp == 1) ptx::Tcgen05Dealloc(address, 32);
}

TEST(TensorMemory, AnAllocationWaitsForColumns) {
  ExpectNothing([] { TakeTurns(true); });
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching launching;
    launching.options.seed = seed;
    // The first warp ends with columns, or keeps them while it waits for the second.
    const emulator::Report report = RunRule(
        [] {
          TakeTurns(false);
          ptx::SyncThreads();
        },
        launching);
    EXPECT_EQ(report.violation, Violation::kDeadlock) << report.message;
    EXPECT_NE(report.message.find("for columns of tensor memory (tcgen05.alloc) (32)"),
              std::string::npos)
        << report.message;
  }
}

// A second product of the same block may take the sums' place once they are loaded.
void Overwrite(bool arrives_late, bool fences) {
  const std::uint32_t thread = ptx::ThreadIndex();
  const ptx::TensorAddress sums = Begin();
  if (thread == 0) {
    ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(), false);
    ptx::Tcgen05Commit(At(kDone));
  }
  ptx::MbarrierWait(At(kDone), 0);
  ptx::Tcgen05FenceAfter();
  if (!arrives_late) ptx::MbarrierArrive(At(kFree));
  std::uint32_t words[16];
  ptx::Tcgen05Load16x256b(words, sums + ptx::TensorLane(thread / 32 * 32));
  ptx::Tcgen05WaitLoad();
  ptx::Tcgen05FenceBefore();
  if (arrives_late) ptx::MbarrierArrive(At(kFree));
  if (thread == 0) {
    ptx::MbarrierWait(At(kFree), 0);
    if (fences) ptx::Tcgen05FenceAfter();
    ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(), false);
    ptx::Tcgen05Commit(At(kDone));
    ptx::MbarrierWait(At(kDone), 1);
  }
  End(Fault::kNone, sums);
}

TEST(Tcgen05, SumsAreReadBeforeTheyAreOverwritten) {
  ExpectNothing([] { Overwrite(true, true); }, Warpgroup());
  ExpectViolation(
      Violation::kMissingFence, [] { Overwrite(true, false); }, Warpgroup());
  ExpectViolation(
      Violation::kRace, [] { Overwrite(false, true); }, Warpgroup());
}

// Only products with the same accumulator and shape are in order.
TEST(Tcgen05, OtherShapesAreNotPipelined) {
  const auto multiply = [](int columns, bool waits) {
    const ptx::TensorAddress sums = Begin();
    if (ptx::ThreadIndex() == 0) {
      ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(64, 32), false);
      if (waits) {
        ptx::Tcgen05Commit(At(kDone));
        ptx::MbarrierWait(At(kDone), 0);
        ptx::Tcgen05FenceAfter();
      }
      ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(64, columns), false);
      ptx::Tcgen05Commit(At(kDone));
      ptx::MbarrierWait(At(kDone), waits ? 1 : 0);
    }
    End(Fault::kNone, sums);
  };
  ExpectNothing([&] { multiply(32, false); }, Warpgroup());
  ExpectNothing([&] { multiply(16, true); }, Warpgroup());
  ExpectViolation(
      Violation::kNotLanded, [&] { multiply(16, false); }, Warpgroup());
}

// Two threads whose products add to the same sums: fences and a barrier put them in order.
TEST(Tcgen05, AnotherThreadsProductsAreOrderedByFences) {
  const auto multiply = [](bool before, bool after) {
    const std::uint32_t thread = ptx::ThreadIndex();
    const ptx::TensorAddress sums = Begin();
    if (thread == 0) {
      ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(), false);
      if (before) ptx::Tcgen05FenceBefore();
    }
    ptx::SyncThreads();
    if (thread == 64) {
      if (after) ptx::Tcgen05FenceAfter();
      ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(), true);
    }
    // Each commits its own.
    ptx::SyncThreads();
    if (thread == 0) {
      ptx::Tcgen05Commit(At(kDone));
      ptx::MbarrierWait(At(kDone), 0);
    }
    ptx::SyncThreads();
    if (thread == 64) {
      ptx::Tcgen05Commit(At(kDone));
      ptx::MbarrierWait(At(kDone), 1);
    }
    End(Fault::kNone, sums);
  };
  ExpectNothing([&] { multiply(true, true); }, Warpgroup());
  ExpectViolation(
      Violation::kNotLanded, [&] { multiply(false, true); }, Warpgroup());
  ExpectViolation(
      Violation::kNotLanded, [&] { multiply(true, false); }, Warpgroup());
}

TEST(Tcgen05, ACopyComesBeforeTheProductThatReadsIt) {
  // The second copy overwrites what the product reads, and no rule puts it behind.
  const auto copy = [](bool copies_again) {
    const ptx::TensorAddress sums = Begin(Fault::kNone, 64);
    const ptx::TensorAddress a_scales = sums + 32;
    const ptx::TensorAddress b_scales = sums + 36;
    ptx::Tcgen05MxForm form;
    form.rows = 128;
    form.columns = 32;
    // All groups of eight lines lie in one place.
    const std::uint64_t lines =
        ptx::MakeTcgen05Descriptor(ptx::SharedBase(), 128, 0, ptx::Swizzle::kNone);
    if (ptx::ThreadIndex() == 0) {
      ptx::Tcgen05Copy32x128b(a_scales, Operand());
      ptx::Tcgen05Copy32x128b(b_scales, Operand());
      ptx::Tcgen05MultiplyMx(sums, lines, lines, ptx::MakeTcgen05MxInstruction(form), a_scales,
                             b_scales, false);
      if (copies_again) ptx::Tcgen05Copy32x128b(a_scales, Operand());
      ptx::Tcgen05Commit(At(kDone));
      ptx::MbarrierWait(At(kDone), 0);
    }
    End(Fault::kNone, sums, 64);
  };
  ExpectNothing([&] { copy(false); }, Warpgroup());
  ExpectViolation(
      Violation::kNotLanded, [&] { copy(true); }, Warpgroup());
}

TEST(Tcgen05, SharedMemoryIsReadBeforeItIsOverwritten) {
  const auto multiply = [](bool waits) {
    const ptx::TensorAddress sums = Begin();
    if (ptx::ThreadIndex() == 0) {
      ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(), false);
      ptx::Tcgen05Commit(At(kDone));
      if (waits) ptx::MbarrierWait(At(kDone), 0);
      ptx::StoreShared(Word(0), 1u);
      if (!waits) ptx::MbarrierWait(At(kDone), 0);
    }
    End(Fault::kNone, sums);
  };
  ExpectNothing([&] { multiply(true); }, Warpgroup());
  ExpectViolation(
      Violation::kRace, [&] { multiply(false); }, Warpgroup());
}

TEST(Tcgen05, ACommitWaitsForWhatItsOwnThreadIssued) {
  // Thread 32 knows of the product, but commits nothing.
  ExpectViolation(
      Violation::kRace,
      [] {
        const std::uint32_t thread = ptx::ThreadIndex();
        const ptx::TensorAddress sums = Begin();
        if (thread == 0) {
          ptx::Tcgen05Multiply(sums, Operand(), Operand(), Instruction(), false);
          ptx::Tcgen05FenceBefore();
        }
        ptx::SyncThreads();
        if (thread == 32) {
          ptx::Tcgen05FenceAfter();
          ptx::Tcgen05Commit(At(kDone));
        }
        ptx::MbarrierWait(At(kDone), 0);
        End(Fault::kNone, sums);
      },
      Warpgroup());
}

TEST(Tcgen05, DescriptorsAreWhatThereIs) {
  const auto multiply = [](std::uint64_t a, std::uint32_t instruction) {
    return [a, instruction] {
      const ptx::TensorAddress sums = Begin();
      if (ptx::ThreadIndex() == 0) {
        ptx::Tcgen05Multiply(sums, a, Operand(), instruction, false);
        ptx::Tcgen05Commit(At(kDone));
        ptx::MbarrierWait(At(kDone), 0);
      }
      End(Fault::kNone, sums);
    };
  };
  const std::uint64_t good = ptx::MakeTcgen05Descriptor(1024, 1024, 128, ptx::Swizzle::kNone);
  ExpectNothing(multiply(good, Instruction()), Warpgroup());
  for (const int bit : {14, 46, 47, 52, 53, 60, 61}) {
    ExpectViolation(Violation::kBadOperand,
                    multiply(good ^ (std::uint64_t{1} << bit), Instruction()), Warpgroup());
  }
  // The address is misaligned for a swizzle of 128 bytes, started inside its period.
  ExpectViolation(Violation::kMisaligned,
                  multiply((good + 8) | std::uint64_t{2} << 61, Instruction()), Warpgroup());
  for (const int bit : {2, 3, 5, 6, 8, 23, 29, 30}) {
    ExpectViolation(Violation::kBadOperand, multiply(good, Instruction() ^ 1u << bit), Warpgroup());
  }
  ExpectViolation(Violation::kBadOperand, multiply(good, Instruction(32)), Warpgroup());
  ExpectViolation(Violation::kBadOperand, multiply(good, Instruction(256)), Warpgroup());
  ExpectViolation(Violation::kBadOperand, multiply(good, Instruction(128, 24)), Warpgroup());
}

// ------------------------------------------------------------ pairs of blocks

Launching InPairs() {
  Launching launching = Warpgroup();
  launching.blocks = 2;
  launching.cluster = 2;
  return launching;
}

// One product of both blocks, by a thread of the first; each loads its half of the rows.
void MultiplyInPair(std::uint32_t commits_to, bool waits_at_end = true) {
  const std::uint32_t thread = ptx::ThreadIndex();
  const ptx::TensorAddress sums = Begin<2>();
  if (thread == 0 && ptx::RankInCluster() == 0) {
    ptx::Tcgen05Multiply<2>(sums, Operand(), Operand(), Instruction(128, 32), false);
    ptx::Tcgen05CommitMulticast<2>(At(kDone), commits_to);
  }
  ptx::MbarrierWait(At(kDone), 0);
  ptx::Tcgen05FenceAfter();
  std::uint32_t words[16];
  ptx::Tcgen05Load32x32b(words, sums + ptx::TensorLane(thread / 32 * 32));
  ptx::Tcgen05WaitLoad();
  if (words[15] != 0) ptx::LoadShared<std::uint32_t>(0);
  ptx::Tcgen05FenceBefore();
  if (waits_at_end) {
    End<2>(Fault::kNone, sums);
  } else {
    End<1>(Fault::kNone, sums);
  }
}

TEST(Tcgen05Pairs, MultiplyTogether) {
  ExpectNothing([] { MultiplyInPair(3); }, InPairs());
}

TEST(Tcgen05Pairs, ACommitToOneBlockLeavesTheOtherWaiting) {
  ExpectViolation(
      Violation::kDeadlock, [] { MultiplyInPair(1); }, InPairs());
}

TEST(Tcgen05Pairs, AllInstructionsSayTheSameGroup) {
  ExpectViolation(
      Violation::kBadOperand, [] { MultiplyInPair(3, false); }, InPairs());
}

TEST(Tcgen05Pairs, AreThere) {
  Launching launching = Warpgroup();
  ExpectViolation(
      Violation::kBadOperand,
      [] {
        if (ptx::ThreadIndex() / 32 == 0) ptx::Tcgen05Alloc<2>(At(kSlot), 32);
      },
      launching);
}

TEST(Tcgen05Pairs, AllocateAndGiveBackTogether) {
  // The second block never asks.
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching launching = InPairs();
    launching.options.seed = seed;
    const emulator::Report report = RunRule(
        [] {
          ptx::ClusterSync();
          if (ptx::ThreadIndex() / 32 == 0 && ptx::RankInCluster() == 0) {
            ptx::Tcgen05Alloc<2>(At(kSlot), 32);
          }
          ptx::ClusterSync();
        },
        launching);
    EXPECT_EQ(report.violation, Violation::kDeadlock) << report.message;
    EXPECT_NE(report.message.find("tcgen05.alloc"), std::string::npos) << report.message;
  }
}

}  // namespace
}  // namespace gemmd::testing
