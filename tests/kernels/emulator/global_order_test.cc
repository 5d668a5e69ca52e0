// Races in global memory between threads and blocks of one launch, and between the generic
// and the async proxy: each reported on 20 seeds, and ordered accesses on none.
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/tensor_copy.h"
#include "tests/kernels/emulator/rule.h"

namespace gemmd::testing {
namespace {

std::uint32_t data[4 * 64];
std::uint32_t flag;

Launching Blocks(std::uint32_t blocks) {
  Launching launching;
  launching.blocks = blocks;
  launching.buffers = {{data, sizeof data, "data", false}, {&flag, sizeof flag, "flag", false}};
  return launching;
}

TEST(GlobalOrder, LetsBlocksWriteTheirOwnParts) {
  ExpectNothing([] { ptx::StoreGlobal(data + ptx::BlockIndexX() * 64 + ptx::ThreadIndex(), 1u); },
                Blocks(4));
  // Bytes of one word by different threads.
  ExpectNothing(
      [] {
        auto* bytes = reinterpret_cast<std::uint8_t*>(data);
        ptx::StoreGlobal(bytes + ptx::BlockIndexX() * 64 + ptx::ThreadIndex(), std::uint8_t{1});
      },
      Blocks(4));
}

TEST(GlobalOrder, ReportsBlocksThatWriteTheSame) {
  ExpectViolation(
      Violation::kRace, [] { ptx::StoreGlobal(data + ptx::ThreadIndex(), ptx::BlockIndexX()); },
      Blocks(2));
  // The blocks need not run at the same time.
  Launching launching = Blocks(2);
  launching.options.resident_clusters = 1;
  ExpectViolation(
      Violation::kRace, [] { ptx::StoreGlobal(data + ptx::ThreadIndex(), ptx::BlockIndexX()); },
      launching);
  // Half a tile too far: the overlap is one word.
  ExpectViolation(
      Violation::kRace,
      [] { ptx::StoreGlobal(data + ptx::BlockIndexX() * 63 + ptx::ThreadIndex(), 1u); }, Blocks(2));
}

TEST(GlobalOrder, HoldsInsideABlock) {
  const auto pass = [](bool syncs) {
    ptx::StoreGlobal(data + ptx::ThreadIndex(), 1u);
    if (syncs) ptx::SyncThreads();
    ptx::LoadGlobal(data + 63 - ptx::ThreadIndex());
  };
  ExpectNothing([&] { pass(true); }, Blocks(1));
  ExpectViolation(
      Violation::kRace, [&] { pass(false); }, Blocks(1));
  // A read, then a write that it is not ordered before.
  const auto overwrite = [](bool syncs) {
    ptx::LoadGlobal(data + 63 - ptx::ThreadIndex());
    if (syncs) ptx::SyncThreads();
    ptx::StoreGlobal(data + ptx::ThreadIndex(), 1u);
  };
  ExpectNothing([&] { overwrite(true); }, Blocks(1));
  ExpectViolation(
      Violation::kRace, [&] { overwrite(false); }, Blocks(1));
}

enum class FlagFault { kNone, kNoWait, kNoBarrier, kEarly };

// Reduces as split-K does: each block leaves a part, the last one adds all up.
void ReduceParts(FlagFault fault) {
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t block = ptx::BlockIndexX();
  if (fault == FlagFault::kEarly && thread == 0) ptx::AtomicAddGlobal(&flag, 1);
  ptx::StoreGlobal(data + block * 64 + thread, block + 1);
  if (fault != FlagFault::kNoBarrier) ptx::SyncThreads();
  // The atomic operation is an acquire too: a last block that makes it has waited as well.
  const bool adds = fault != FlagFault::kEarly && (fault != FlagFault::kNoWait || block != 3);
  if (thread == 0 && adds) ptx::AtomicAddGlobal(&flag, 1);
  if (block != 3) return;
  if (thread == 0 && fault != FlagFault::kNoWait) ptx::WaitGlobalAtLeast(&flag, 4);
  ptx::SyncThreads();
  std::uint32_t sum = 0;
  for (std::uint32_t part = 0; part < 4; ++part) sum += ptx::LoadGlobal(data + part * 64 + thread);
  if (sum != 10) ptx::LoadShared<std::uint32_t>(0);
}

void ExpectRaceInReduction(FlagFault fault) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    flag = 0;
    Launching launching = Blocks(4);
    launching.options.seed = seed;
    const emulator::Report report = RunRule([&] { ReduceParts(fault); }, launching);
    EXPECT_EQ(report.violation, Violation::kRace) << report.message;
  }
}

TEST(GlobalOrder, PassesThroughFlags) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    flag = 0;
    Launching launching = Blocks(4);
    launching.options.seed = seed;
    const emulator::Report report = RunRule([] { ReduceParts(FlagFault::kNone); }, launching);
    ASSERT_TRUE(report.ok()) << report.message;
  }
}

TEST(GlobalOrder, ReportsFlagsNotWaitedFor) { ExpectRaceInReduction(FlagFault::kNoWait); }
TEST(GlobalOrder, ReportsPartsOutsideTheFlag) { ExpectRaceInReduction(FlagFault::kNoBarrier); }
TEST(GlobalOrder, ReportsFlagsRaisedEarly) { ExpectRaceInReduction(FlagFault::kEarly); }

TEST(GlobalOrder, ReportsFlagsReadPlainly) {
  ExpectViolation(
      Violation::kRace,
      [] {
        if (ptx::ThreadIndex() != 0) return;
        if (ptx::BlockIndexX() == 0) ptx::StoreGlobalRelease(&flag, 1);
        if (ptx::BlockIndexX() == 1) ptx::LoadGlobal(&flag);
      },
      Blocks(2));
}

TEST(GlobalOrder, LeavesLongBuffersOutAndSaysSo) {
  Launching launching = Blocks(2);
  launching.options.global_order_limit = 256;
  const emulator::Report report =
      RunRule([] { ptx::StoreGlobal(data + ptx::ThreadIndex(), 1u); }, launching);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.statistics.unchecked_buffers, std::vector<std::string>{"data"});
}

// ------------------------------------------------------------ bulk copies

alignas(128) std::uint32_t tensor[32 * 32];

ptx::TensorMap TensorOfWords() {
  ptx::TensorMapSpec spec;
  spec.base = tensor;
  spec.element = ptx::TensorElement::kF32;
  spec.size[0] = spec.size[1] = 32;
  spec.stride_bytes[1] = 128;
  spec.box[0] = 32;
  spec.box[1] = 8;
  return *ptx::MakeTensorMap(spec);
}

Launching OverTensor(std::uint32_t blocks) {
  Launching launching;
  launching.blocks = blocks;
  launching.threads = 32;
  launching.buffers = {{tensor, sizeof tensor, "tensor", false}};
  return launching;
}

void FillBox() {
  for (std::uint32_t i = ptx::ThreadIndex(); i < 256; i += 32) ptx::StoreShared(Word(i), 1.0f);
  ptx::FenceProxyAsync();
  ptx::SyncThreads();
}

void FinishStore() {
  ptx::BulkCommit();
  ptx::BulkWait<0>();
}

TEST(GlobalOrderOfBulkStores, BlocksStoreDifferentBoxes) {
  static const ptx::TensorMap map = TensorOfWords();
  const auto store = [](std::int32_t rows_apart) {
    FillBox();
    if (ptx::ThreadIndex() == 0) {
      ptx::TensorStore2D(&map, Word(0), 0,
                         static_cast<std::int32_t>(ptx::BlockIndexX()) * rows_apart);
      FinishStore();
    }
  };
  ExpectNothing([&] { store(8); }, OverTensor(4));
  ExpectViolation(
      Violation::kRace, [&] { store(7); }, OverTensor(4));
}

TEST(GlobalOrderOfBulkStores, AdditionsMayMeet) {
  static const ptx::TensorMap map = TensorOfWords();
  const auto add = [](bool and_store) {
    FillBox();
    if (ptx::ThreadIndex() == 0) {
      if (and_store && ptx::BlockIndexX() == 0) {
        ptx::TensorStore2D(&map, Word(0), 0, 0);
      } else {
        ptx::TensorAdd2D(&map, Word(0), 0, 0);
      }
      FinishStore();
    }
  };
  ExpectNothing([&] { add(false); }, OverTensor(4));
  ExpectViolation(
      Violation::kRace, [&] { add(true); }, OverTensor(4));
}

TEST(GlobalOrderOfBulkStores, AGenericStoreRacesUnlessItIsWaitedFor) {
  static const ptx::TensorMap map = TensorOfWords();
  const auto then_store = [](bool waits_for_write) {
    FillBox();
    if (ptx::ThreadIndex() != 0) return;
    ptx::TensorStore2D(&map, Word(0), 0, 0);
    ptx::BulkCommit();
    // Having read shared memory is not having written global memory.
    if (waits_for_write) {
      ptx::BulkWait<0>();
    } else {
      ptx::BulkWaitRead<0>();
    }
    ptx::StoreGlobal(tensor + 3, 7u);
  };
  ExpectNothing([&] { then_store(true); }, OverTensor(1));
  ExpectViolation(
      Violation::kRace, [&] { then_store(false); }, OverTensor(1));
}

enum class ProxyFault { kNone, kNoFence, kSharedFence };

TEST(GlobalOrderOfBulkLoads, SeeStoresAcrossAProxyFence) {
  static const ptx::TensorMap map = TensorOfWords();
  const auto pass = [](ProxyFault fault) {
    const std::uint32_t thread = ptx::ThreadIndex();
    const ptx::SharedAddress mbarrier = Word(512);
    if (thread == 0) {
      ptx::MbarrierInit(mbarrier, 1);
      ptx::FenceMbarrierInit();
    }
    for (std::uint32_t i = thread; i < 256; i += 32) ptx::StoreGlobal(tensor + i, i);
    if (fault == ProxyFault::kNone) ptx::FenceProxyAsyncGlobal();
    if (fault == ProxyFault::kSharedFence) ptx::FenceProxyAsync();
    ptx::SyncThreads();
    if (thread == 0) {
      ptx::MbarrierArriveExpect(mbarrier, 1024);
      ptx::TensorLoad2D(Word(0), &map, 0, 0, mbarrier);
    }
    ptx::MbarrierWait(mbarrier, 0);
    if (ptx::LoadShared<std::uint32_t>(Word(thread)) != thread) ptx::LoadShared<std::uint32_t>(0);
  };
  ExpectNothing([&] { pass(ProxyFault::kNone); }, OverTensor(1));
  ExpectViolation(
      Violation::kMissingFence, [&] { pass(ProxyFault::kNoFence); }, OverTensor(1));
  ExpectViolation(
      Violation::kMissingFence, [&] { pass(ProxyFault::kSharedFence); }, OverTensor(1));
}

}  // namespace
}  // namespace gemmd::testing
