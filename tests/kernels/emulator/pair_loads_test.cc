// Loads of four dimensions, loads of a pair of blocks that complete in its even block,
// bytes that another block expects there, and loads that outlive a block.
#include <cstdint>
#include <vector>

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tensor_copy.h"
#include "tests/kernels/emulator/rule.h"

namespace gemmd::testing {
namespace {

constexpr std::uint32_t kBoxWords = 64;

// 8 x 4 x 3 x 3 words, each its own index.
std::vector<std::uint32_t> Numbers() {
  std::vector<std::uint32_t> numbers(8 * 4 * 3 * 3);
  for (std::uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  return numbers;
}

// Boxes of 4 x 2 x 2 x 2 words of the tensor.
ptx::TensorMap MakeMap(const std::vector<std::uint32_t>& numbers) {
  ptx::TensorMapSpec spec;
  spec.base = numbers.data();
  spec.element = ptx::TensorElement::kU32;
  spec.rank = 4;
  constexpr std::uint64_t kSize[4] = {8, 4, 3, 3};
  std::uint64_t stride = 4;
  for (int i = 0; i < 4; ++i) {
    spec.size[i] = kSize[i];
    if (i > 0) spec.stride_bytes[i] = stride;
    stride *= kSize[i];
    spec.box[i] = i == 0 ? 4 : 2;
  }
  return *ptx::MakeTensorMap(spec);
}

// Word `i` of the box at that corner; zero outside of the tensor.
std::uint32_t Expected(std::uint32_t i, const std::int32_t (&corner)[4]) {
  constexpr std::int32_t kSize[4] = {8, 4, 3, 3};
  std::uint32_t rest = i;
  std::int32_t index = 0;
  std::int32_t stride = 1;
  for (int d = 0; d < 4; ++d) {
    const std::uint32_t box = d == 0 ? 4 : 2;
    const std::int32_t at = corner[d] + static_cast<std::int32_t>(rest % box);
    rest /= box;
    if (at < 0 || at >= kSize[d]) return 0;
    index += at * stride;
    stride *= kSize[d];
  }
  return static_cast<std::uint32_t>(index);
}

Launching Reading(const std::vector<std::uint32_t>& numbers, std::uint32_t blocks) {
  Launching launching;
  launching.threads = 32;
  launching.blocks = blocks;
  launching.cluster = blocks;
  launching.buffers = {{numbers.data(), numbers.size() * 4, "numbers", true}};
  return launching;
}

// Rules have 4096 bytes; the mbarrier is behind the box.
ptx::SharedAddress Mbarrier() { return Word(512); }

void ExpectWord(std::uint32_t i, std::uint32_t expected) {
  // A read outside shared memory is a violation.
  if (ptx::LoadShared<std::uint32_t>(Word(i)) != expected) ptx::LoadShared<std::uint32_t>(0);
}

void LoadBox(const ptx::TensorMap& map, const std::int32_t (&corner)[4], std::uint32_t bytes) {
  if (ptx::ThreadIndex() == 0) {
    ptx::MbarrierInit(Mbarrier(), 1);
    ptx::FenceMbarrierInit();
    ptx::MbarrierArriveExpect(Mbarrier(), bytes);
    ptx::TensorLoad4D(ptx::SharedBase(), &map, corner, Mbarrier());
  }
  ptx::SyncWarp();
  ptx::MbarrierWait(Mbarrier(), 0);
  for (std::uint32_t i = ptx::ThreadIndex(); i < bytes / 4; i += 32) {
    ExpectWord(i, Expected(i, corner));
  }
}

TEST(TensorLoads, HaveFourDimensions) {
  const std::vector<std::uint32_t> numbers = Numbers();
  const ptx::TensorMap map = MakeMap(numbers);
  ExpectNothing([&] { LoadBox(map, {4, 1, 0, 1}, 128); }, Reading(numbers, 1));
  // Outside: the last of each dimension but one, then the first of one too.
  ExpectNothing([&] { LoadBox(map, {4, 3, 2, 2}, 128); }, Reading(numbers, 1));
  ExpectNothing([&] { LoadBox(map, {4, -1, 2, 2}, 128); }, Reading(numbers, 1));
  ExpectViolation(
      Violation::kDeadlock,
      [&] {
        LoadBox(map, {0, 0, 0, 0}, 64);
      },
      Reading(numbers, 1));
}

enum class PairFault { kNone, kOwnBarrier, kNotExpected };

// Both blocks load half a box of rows; the even block's mbarrier counts both, and it tells the odd
// block, which expects its own bytes there.
void LoadInPair(const ptx::TensorMap& map, PairFault fault) {
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t rank = ptx::RankInCluster();
  const auto z = static_cast<std::int32_t>(rank);
  if (thread == 0) {
    ptx::MbarrierInit(Mbarrier(), 2);
    ptx::MbarrierInit(Mbarrier() + 8, 1);
    ptx::FenceMbarrierInit();
  }
  ptx::ClusterSync();
  if (thread == 0) {
    if (fault != PairFault::kNotExpected) {
      ptx::MbarrierArriveExpectRemote(ptx::MapShared(Mbarrier(), 0), 128);
    } else {
      ptx::MbarrierArriveRemote(ptx::MapShared(Mbarrier(), 0));
    }
    if (fault == PairFault::kOwnBarrier) {
      ptx::TensorLoad4D(ptx::SharedBase(), &map, {0, 0, z, 0}, Mbarrier());
    } else {
      ptx::TensorLoad4DOfPair(ptx::SharedBase(), &map, {0, 0, z, 0}, Mbarrier());
    }
  }
  ptx::SyncWarp();
  if (rank == 0) {
    ptx::MbarrierWait(Mbarrier(), 0);
    if (thread == 0) ptx::MbarrierArriveCluster(ptx::MapShared(Mbarrier() + 8, 1));
  } else {
    ptx::MbarrierWaitCluster(Mbarrier() + 8, 0);
  }
  const std::int32_t corner[4] = {0, 0, z, 0};
  for (std::uint32_t i = thread; i < kBoxWords / 2; i += 32) ExpectWord(i, Expected(i, corner));
  ptx::ClusterSync();
}

TEST(PairLoads, CompleteInTheEvenBlock) {
  const std::vector<std::uint32_t> numbers = Numbers();
  const ptx::TensorMap map = MakeMap(numbers);
  const Launching launching = Reading(numbers, 2);
  ExpectNothing([&] { LoadInPair(map, PairFault::kNone); }, launching);
  // The odd block's own mbarrier knows of no bytes, and the even block waits for ever.
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Launching seeded = launching;
    seeded.options.seed = seed;
    EXPECT_FALSE(RunRule([&] { LoadInPair(map, PairFault::kOwnBarrier); }, seeded).ok());
    EXPECT_FALSE(RunRule([&] { LoadInPair(map, PairFault::kNotExpected); }, seeded).ok());
  }
}

enum class ExitFault { kNone, kNotWaited, kNeverExpected };

// The other threads wait, or nobody does, though thread 0 goes on to exit.
void LoadAndExit(const ptx::TensorMap& map, ExitFault fault) {
  const bool is_loader = ptx::ThreadIndex() == 0;
  if (is_loader) {
    ptx::MbarrierInit(Mbarrier(), 1);
    ptx::FenceMbarrierInit();
    if (fault != ExitFault::kNeverExpected) ptx::MbarrierArriveExpect(Mbarrier(), 128);
    ptx::TensorLoad4D(ptx::SharedBase(), &map, {0, 0, 0, 0}, Mbarrier());
  }
  ptx::SyncWarp();
  if (fault == ExitFault::kNone && !is_loader) ptx::MbarrierWait(Mbarrier(), 0);
}

// A load that has landed by chance is reported like one that has not.
TEST(LoadsInFlight, AreWaitedForBeforeTheBlockExits) {
  const std::vector<std::uint32_t> numbers = Numbers();
  const ptx::TensorMap map = MakeMap(numbers);
  for (const emulator::Landing landing :
       {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    Launching launching = Reading(numbers, 1);
    launching.options.landing = landing;
    ExpectNothing([&] { LoadAndExit(map, ExitFault::kNone); }, launching);
    for (const ExitFault fault : {ExitFault::kNotWaited, ExitFault::kNeverExpected}) {
      ExpectViolation(
          Violation::kUnfinished, [&] { LoadAndExit(map, fault); }, launching);
    }
  }
}

// Each block loads, and all bytes are counted in the even one, which waits for them. The odd block
// knows nothing of its own load unless it is told.
void LoadInPairAndExit(const ptx::TensorMap& map, bool is_told) {
  const bool is_first = ptx::ThreadIndex() == 0;
  const std::uint32_t rank = ptx::RankInCluster();
  if (is_first) {
    ptx::MbarrierInit(Mbarrier(), 1);
    ptx::MbarrierInit(Mbarrier() + 8, 1);
    ptx::FenceMbarrierInit();
  }
  ptx::ClusterSync();
  if (is_first) {
    if (rank == 0) ptx::MbarrierArriveExpect(Mbarrier(), 256);
    ptx::TensorLoad4DOfPair(ptx::SharedBase(), &map, {0, 0, 0, 0}, Mbarrier());
  }
  ptx::SyncWarp();
  if (rank == 0) {
    ptx::MbarrierWait(Mbarrier(), 0);
    if (is_told && is_first) ptx::MbarrierArriveCluster(ptx::MapShared(Mbarrier() + 8, 1));
  } else if (is_told) {
    ptx::MbarrierWaitCluster(Mbarrier() + 8, 0);
  }
}

TEST(LoadsInFlight, OfAPairAreKnownToTheBlockThatTheyFill) {
  const std::vector<std::uint32_t> numbers = Numbers();
  const ptx::TensorMap map = MakeMap(numbers);
  for (const emulator::Landing landing :
       {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    Launching launching = Reading(numbers, 2);
    launching.options.landing = landing;
    ExpectNothing([&] { LoadInPairAndExit(map, true); }, launching);
    ExpectViolation(
        Violation::kUnfinished, [&] { LoadInPairAndExit(map, false); }, launching);
    const std::string message = RunRule([&] { LoadInPairAndExit(map, false); }, launching).message;
    EXPECT_NE(message.find("the block of rank 1 may exit before a bulk copy"), std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace gemmd::testing
