// Instructions that reach another block: a cluster barrier stands before the first of them, and
// each is reported without it.
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/cluster_memory.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "kernels/ptx/tensor_copy.h"
#include "tests/kernels/emulator/rule.h"

namespace gemmd::testing {
namespace {

// A rule's 4096 bytes: a box, then a word, the slot of an address and an mbarrier of one arrival.
constexpr std::uint32_t kBoxBytes = 4 * 2 * 4;
ptx::SharedAddress Data() { return Word(512); }
ptx::SharedAddress Slot() { return Word(516); }
ptx::SharedAddress Mbarrier() { return Word(520); }

// Tensors of 8 x 4 and of 8 x 4 x 1 x 1 words, in boxes of 4 x 2.
struct Maps {
  explicit Maps(const std::vector<std::uint32_t>& words)
      : flat(Make(words, 2)), deep(Make(words, 4)) {}

  static ptx::TensorMap Make(const std::vector<std::uint32_t>& words, std::uint32_t rank) {
    ptx::TensorMapSpec spec;
    spec.base = words.data();
    spec.element = ptx::TensorElement::kU32;
    spec.rank = rank;
    constexpr std::uint64_t kSize[4] = {8, 4, 1, 1};
    for (std::uint32_t i = 0; i < rank; ++i) {
      spec.size[i] = kSize[i];
      if (i > 0) spec.stride_bytes[i] = i == 1 ? 32 : 128;
      spec.box[i] = i == 0 ? 4 : (i == 1 ? 2 : 1);
    }
    return *ptx::MakeTensorMap(spec);
  }

  ptx::TensorMap flat;
  ptx::TensorMap deep;
};

// True for one thread of the block of that rank.
bool IsFirstOf(std::uint32_t rank) {
  return ptx::RankInCluster() == rank && ptx::ThreadIndex() == 0;
}

void AwaitIn(std::uint32_t rank) {
  ptx::SyncWarp();
  if (ptx::RankInCluster() == rank) ptx::MbarrierWait(Mbarrier(), 0);
}

void AwaitInBoth() {
  ptx::SyncWarp();
  ptx::MbarrierWait(Mbarrier(), 0);
}

struct Way {
  const char* name;
  void (*reach)(const Maps& maps);
};

std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

const Way kWays[] = {
    {"Load",
     [](const Maps&) {
       if (IsFirstOf(1)) ptx::LoadSharedRemote<std::uint32_t>(ptx::MapShared(Data(), 0));
     }},
    {"Store",
     [](const Maps&) {
       if (IsFirstOf(1)) ptx::StoreSharedRemote(ptx::MapShared(Data(), 0), 1u);
     }},
    {"Arrive",
     [](const Maps&) {
       if (IsFirstOf(1)) ptx::MbarrierArriveRemote(ptx::MapShared(Mbarrier(), 0));
       AwaitIn(0);
     }},
    {"ArriveCluster",
     [](const Maps&) {
       if (IsFirstOf(1)) ptx::MbarrierArriveCluster(ptx::MapShared(Mbarrier(), 0));
       AwaitIn(0);
     }},
    {"ArriveExpect",
     [](const Maps&) {
       if (IsFirstOf(1)) ptx::MbarrierArriveExpectRemote(ptx::MapShared(Mbarrier(), 0), 0);
       AwaitIn(0);
     }},
    {"MulticastLoad",
     [](const Maps& maps) {
       if (ptx::ThreadIndex() == 0) ptx::MbarrierArriveExpect(Mbarrier(), kBoxBytes);
       if (IsFirstOf(1)) {
         ptx::TensorLoad2DMulticast(ptx::SharedBase(), &maps.flat, 0, 0, Mbarrier(), 3);
       }
       AwaitInBoth();
     }},
    {"LoadOfPair",
     [](const Maps& maps) {
       if (IsFirstOf(0)) ptx::MbarrierArriveExpect(Mbarrier(), kBoxBytes);
       if (IsFirstOf(1)) {
         ptx::TensorLoad2DOfPair(ptx::SharedBase(), &maps.flat, 0, 0, Mbarrier());
       }
       AwaitIn(0);
     }},
    // The mbarrier is the even block's own: what reaches the odd one is the box.
    {"LoadToPair",
     [](const Maps& maps) {
       if (IsFirstOf(0)) {
         ptx::MbarrierArriveExpect(Mbarrier(), 2 * kBoxBytes);
         ptx::TensorLoad4DToPair(ptx::SharedBase(), &maps.deep, {0, 0, 0, 0}, Mbarrier());
       }
       AwaitIn(0);
     }},
    {"Alloc",
     [](const Maps&) {
       ptx::Tcgen05Alloc<2>(Slot(), 32);
       ptx::ClusterSync();
       ptx::Tcgen05Dealloc<2>(ptx::LoadShared<std::uint32_t>(Slot()), 32);
     }},
    {"Relinquish", [](const Maps&) { ptx::Tcgen05Relinquish<2>(); }},
    {"Commit",
     [](const Maps&) {
       if (IsFirstOf(1)) ptx::Tcgen05Commit<2>(Mbarrier());
       AwaitIn(1);
     }},
    {"CommitMulticast",
     [](const Maps&) {
       if (IsFirstOf(0)) ptx::Tcgen05CommitMulticast<2>(Mbarrier(), 3);
       AwaitInBoth();
     }},
};

void Reach(const Way& way, const Maps& maps, bool knows_that_both_run) {
  if (ptx::ThreadIndex() == 0) {
    ptx::StoreShared(Data(), 0u);
    ptx::MbarrierInit(Mbarrier(), 1);
    ptx::FenceMbarrierInit();
  }
  if (knows_that_both_run) {
    ptx::ClusterSync();
  } else {
    ptx::SyncThreads();
  }
  way.reach(maps);
  ptx::ClusterSync();
}

Launching InPairs(const std::vector<std::uint32_t>& words) {
  Launching launching;
  launching.threads = 32;
  launching.blocks = 2;
  launching.cluster = 2;
  launching.buffers = {{words.data(), words.size() * 4, "words", true}};
  return launching;
}

class Peers : public ::testing::TestWithParam<Way> {};

TEST_P(Peers, AreReachedBehindAClusterBarrier) {
  const std::vector<std::uint32_t> words(32);
  const Maps maps(words);
  for (const emulator::Landing landing :
       {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    Launching launching = InPairs(words);
    launching.options.landing = landing;
    ExpectNothing([&] { Reach(GetParam(), maps, true); }, launching);
  }
}

TEST_P(Peers, AreNotReachedBeforeTheyAreKnownToRun) {
  const std::vector<std::uint32_t> words(32);
  const Maps maps(words);
  const auto reach = [&] { Reach(GetParam(), maps, false); };
  ExpectViolation(Violation::kRace, reach, InPairs(words));
  const std::string message = RunRule(reach, InPairs(words)).message;
  EXPECT_NE(message.find("which may not have started"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(EachWay, Peers, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

// A block gives its columns back when it knows that the other one has got its own.
TEST(PeersMemory, IsGivenBackOnceBothHaveIt) {
  const std::vector<std::uint32_t> words(32);
  const auto allocate = [](bool waits) {
    ptx::ClusterSync();
    ptx::Tcgen05Alloc<2>(Slot(), 32);
    if (waits) ptx::ClusterSync();
    ptx::Tcgen05Dealloc<2>(ptx::LoadShared<std::uint32_t>(Slot()), 32);
    ptx::ClusterSync();
  };
  ExpectNothing([&] { allocate(true); }, InPairs(words));
  ExpectViolation(
      Violation::kRace, [&] { allocate(false); }, InPairs(words));
}

// Where commits arrive, in each block, a thread waits for the phase of each. A later commit that
// was waited for tells nothing of one before it.
TEST(PeersCommits, AreAwaitedInEachBlock) {
  const std::vector<std::uint32_t> words(32);
  const auto commit = [](bool waits_for_the_first, std::uint32_t rank) {
    if (ptx::ThreadIndex() == 0) {
      ptx::MbarrierInit(Mbarrier(), 1);
      ptx::MbarrierInit(Mbarrier() + 8, 1);
      ptx::FenceMbarrierInit();
    }
    ptx::ClusterSync();
    if (IsFirstOf(0)) {
      ptx::Tcgen05CommitMulticast<2>(Mbarrier(), 3);
      ptx::Tcgen05CommitMulticast<2>(Mbarrier() + 8, 3);
    }
    ptx::SyncWarp();
    ptx::MbarrierWait(Mbarrier() + 8, 0);
    if (waits_for_the_first || ptx::RankInCluster() != rank) ptx::MbarrierWait(Mbarrier(), 0);
  };
  for (const emulator::Landing landing :
       {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    Launching launching = InPairs(words);
    launching.options.landing = landing;
    ExpectNothing([&] { commit(true, 0); }, launching);
    for (const std::uint32_t rank : {0u, 1u}) {
      ExpectViolation(
          Violation::kUnfinished, [&] { commit(false, rank); }, launching);
    }
  }
}

}  // namespace
}  // namespace gemmd::testing
