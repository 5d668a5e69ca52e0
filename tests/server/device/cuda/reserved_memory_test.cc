#include "server/device/cuda/backend/reserved_memory.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/fake_cuda.h"

namespace gemmd {
namespace {

using testing::FakeCuda;

constexpr std::uint64_t kBytes = 16 << 10;

struct Fixture {
  explicit Fixture(std::uint32_t seed) : cuda(seed), memory(&cuda, arena, kBytes) {}

  char* Allocate(std::uint64_t bytes, CudaStream stream, BlockLife life = BlockLife::kLaunch) {
    const absl::StatusOr<void*> block = memory.Allocate(bytes, stream, life);
    EXPECT_TRUE(block.ok() || absl::IsResourceExhausted(block.status())) << block.status();
    return block.ok() ? static_cast<char*>(*block) : nullptr;
  }
  CudaStream NewStream() { return *cuda.CreateStream(StreamPriority::kNormal); }

  alignas(256) char arena[kBytes];
  FakeCuda cuda;
  ReservedMemory memory;
};

TEST(ReservedMemoryTest, BlocksAreAlignedAndSumToTheWhole) {
  Fixture f(1);
  const CudaStream stream = f.NewStream();
  char* const first = f.Allocate(1, stream);
  char* const second = f.Allocate(kBytes - 256, stream);
  EXPECT_EQ(first, f.arena);
  EXPECT_EQ(second, f.arena + 256);
  EXPECT_EQ(f.Allocate(1, stream), nullptr);
  EXPECT_EQ(f.memory.free_bytes(), 0U);
  EXPECT_TRUE(f.memory.Free(first, stream).ok());
  EXPECT_TRUE(f.memory.Free(second, stream).ok());
  EXPECT_EQ(f.Allocate(kBytes, stream), f.arena);
}

TEST(ReservedMemoryTest, WhatStaysComesFromTheOtherEnd) {
  Fixture f(1);
  const CudaStream stream = f.NewStream();
  EXPECT_EQ(f.Allocate(512, stream), f.arena);
  EXPECT_EQ(f.Allocate(512, stream, BlockLife::kStays), f.arena + kBytes - 512);
  EXPECT_EQ(f.Allocate(512, stream), f.arena + 512);
  EXPECT_EQ(f.Allocate(512, stream, BlockLife::kStays), f.arena + kBytes - 1024);
}

TEST(ReservedMemoryTest, FreedMemoryThatIsInUseIsTakenLast) {
  Fixture f(1);
  const CudaStream out = f.NewStream();
  const CudaStream in = f.NewStream();
  char* const first = f.Allocate(kBytes / 2, in);
  f.cuda.Stall();
  EXPECT_TRUE(f.memory.Free(first, out).ok());
  char* const second = f.Allocate(kBytes / 4, in);
  EXPECT_EQ(second, f.arena + kBytes / 2);
  // A quarter is left, and what the first had: both together, or either.
  EXPECT_EQ(f.Allocate(kBytes / 4 * 3, in), nullptr);
  EXPECT_EQ(f.Allocate(kBytes / 2, in), first);
  EXPECT_EQ(f.Allocate(kBytes / 4, in), f.arena + kBytes / 4 * 3);
}

TEST(ReservedMemoryTest, WhatIsNoBlockIsNotFreed) {
  Fixture f(1);
  const CudaStream stream = f.NewStream();
  char* const block = f.Allocate(512, stream);
  EXPECT_TRUE(absl::IsInternal(f.memory.Free(block + 256, stream)));
  EXPECT_TRUE(f.memory.Free(block, stream).ok());
  EXPECT_TRUE(absl::IsInternal(f.memory.Free(block, stream)));
}

// Streams run in any order that waits allow: nobody's bytes change while a block is theirs.
TEST(ReservedMemoryTest, BlocksKeepTheirBytesInWhateverOrderStreamsRun) {
  struct Block {
    char* data;
    std::uint64_t bytes;
    CudaStream stream;
  };
  int reused = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    Fixture f(seed);
    std::mt19937 random(seed);
    std::vector<CudaStream> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(f.NewStream());
    std::deque<Block> blocks;
    int wrong = 0;
    const auto free_oldest = [&] {
      const Block block = blocks.front();
      blocks.pop_front();
      EXPECT_TRUE(f.memory.Free(block.data, block.stream).ok());
    };
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t bytes = 1 + random() % (kBytes / 3);
      const CudaStream stream = streams[random() % streams.size()];
      const auto life = random() % 4 == 0 ? BlockLife::kStays : BlockLife::kLaunch;
      char* data = nullptr;
      while ((data = f.Allocate(bytes, stream, life)) == nullptr) {
        ASSERT_FALSE(blocks.empty());
        free_oldest();
        ++reused;
      }
      for (const Block& other : blocks) {
        ASSERT_TRUE(data + bytes <= other.data || other.data + other.bytes <= data);
      }
      blocks.push_back({data, bytes, stream});
      const char mark = static_cast<char>(random());
      ASSERT_TRUE(f.cuda
                      .Launch(
                          [=](const LaunchTarget&) {
                            std::fill_n(data, bytes, mark);
                            return absl::OkStatus();
                          },
                          stream)
                      .ok());
      ASSERT_TRUE(f.cuda
                      .Launch(
                          [=, &wrong](const LaunchTarget&) {
                            wrong += std::count(data, data + bytes, mark) !=
                                     static_cast<std::ptrdiff_t>(bytes);
                            return absl::OkStatus();
                          },
                          stream)
                      .ok());
      if (random() % 3 == 0) free_oldest();
    }
    while (!blocks.empty()) free_oldest();
    for (const CudaStream stream : streams) {
      const CudaEvent end = *f.cuda.CreateEvent();
      ASSERT_TRUE(f.cuda.Record(end, stream).ok());
      while (!*f.cuda.IsDone(end)) {
      }
    }
    EXPECT_EQ(wrong, 0) << "seed " << seed;
    EXPECT_EQ(f.memory.free_bytes(), kBytes);
    EXPECT_EQ(f.Allocate(kBytes, streams[0]), f.arena);
  }
  EXPECT_GT(reused, 1000);
}

}  // namespace
}  // namespace gemmd
