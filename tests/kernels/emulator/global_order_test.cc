// Races in global memory between threads and blocks of one launch, and between the generic
// and the async proxy: each reported on 20 seeds, and ordered accesses on none.
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/tensor_copy.h"
#include "tests/kernels/emulator/rule.h"

namespace gemmd::testing {
namespace {

std::uint32_t data[4 * 64];

Launching Blocks(std::uint32_t blocks) {
  Launching launching;
  launching.blocks = blocks;
  launching.buffers = {{data, sizeof data, "data", false}};
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

// No kernel passes an order between blocks through global memory: whatever one does with bytes that
// another writes is a race, whichever comes first.
TEST(GlobalOrder, ReportsBlocksThatReadWhatAnotherWrites) {
  const auto meet = [](bool second_writes) {
    const bool writes = (ptx::BlockIndexX() == 1) == second_writes;
    if (writes) {
      ptx::StoreGlobal(data + ptx::ThreadIndex(), 1u);
    } else {
      ptx::LoadGlobal(data + ptx::ThreadIndex());
    }
  };
  for (const int resident : {1, 2}) {
    Launching launching = Blocks(2);
    launching.options.resident_clusters = resident;
    for (const bool second_writes : {false, true}) {
      ExpectViolation(
          Violation::kRace, [&] { meet(second_writes); }, launching);
    }
  }
  // Barriers of a block say nothing of another's.
  ExpectViolation(
      Violation::kRace,
      [] {
        ptx::StoreGlobal(data + ptx::BlockIndexX() * 64 + ptx::ThreadIndex(), 1u);
        ptx::SyncThreads();
        ptx::LoadGlobal(data + (1 - ptx::BlockIndexX()) * 64 + ptx::ThreadIndex());
      },
      Blocks(2));
}

TEST(GlobalOrder, HoldsBetweenTheBlocksOfACluster) {
  Launching launching = Blocks(2);
  launching.cluster = 2;
  const auto pass = [](bool syncs_cluster) {
    ptx::StoreGlobal(data + ptx::BlockIndexX() * 64 + ptx::ThreadIndex(), 1u);
    if (syncs_cluster) {
      ptx::ClusterSync();
    } else {
      ptx::SyncThreads();
    }
    ptx::LoadGlobal(data + (1 - ptx::BlockIndexX()) * 64 + ptx::ThreadIndex());
  };
  ExpectNothing([&] { pass(true); }, launching);
  ExpectViolation(
      Violation::kRace, [&] { pass(false); }, launching);
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
