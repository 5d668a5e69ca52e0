#include "server/device/plane_receiver.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

std::string SomeBytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 37 + i / 256);
  return bytes;
}

// Memory in pieces of these sizes.
HostBuffer InPieces(const std::vector<std::uint64_t>& sizes) {
  HostBuffer buffer;
  for (std::uint64_t size : sizes) {
    HostBuffer piece = AllocateHostBuffer(size);
    buffer.push_back(piece.front());
  }
  return buffer;
}

std::string Contents(const HostBuffer& buffer) {
  std::string bytes;
  for (const HostPiece& piece : buffer) bytes.append(piece.data, piece.size_bytes);
  return bytes;
}

absl::Status ReceivePart(PlaneReceiver* plane, const std::string& bytes, std::uint64_t begin,
                         std::uint64_t end) {
  const std::uint64_t middle = begin + (end - begin) / 3;
  const absl::string_view all = bytes;
  return plane->Receive(begin,
                        {all.substr(begin, middle - begin), all.substr(middle, end - middle)});
}

TEST(PlaneReceiverTest, ChunksInAnyOrderFillThePieces) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const std::string bytes = SomeBytes(1 + random() % 300);
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t left = bytes.size(); left > 0;) {
      sizes.push_back(1 + random() % left);
      left -= sizes.back();
    }
    PlaneReceiver plane("a", bytes.size(), bytes.size(), InPieces(sizes));
    std::vector<std::uint64_t> cuts = {0, bytes.size()};
    for (int i = 0; i < 9; ++i) cuts.push_back(random() % bytes.size());
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::size_t> order(cuts.size() - 1);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i : order) {
      ASSERT_TRUE(ReceivePart(&plane, bytes, cuts[i], cuts[i + 1]).ok());
    }
    ASSERT_TRUE(plane.complete()) << seed;
    ASSERT_TRUE(plane.CheckComplete().ok());
    ASSERT_TRUE(plane.Missing().empty());
    ASSERT_EQ(plane.received_bytes(), bytes.size());
    ASSERT_EQ(Contents(plane.memory()), bytes) << seed;
  }
}

TEST(PlaneReceiverTest, SaysWhatIsMissing) {
  const std::string bytes = SomeBytes(100);
  PlaneReceiver plane("b", 100, 100, InPieces({100}));
  ASSERT_TRUE(ReceivePart(&plane, bytes, 10, 20).ok());
  ASSERT_TRUE(ReceivePart(&plane, bytes, 40, 90).ok());
  const std::vector<ByteRange> missing = plane.Missing();
  ASSERT_EQ(missing.size(), 3);
  EXPECT_EQ(missing[1].begin, 20);
  EXPECT_EQ(missing[1].end, 40);
  EXPECT_EQ(missing[2].begin, 90);
  EXPECT_EQ(missing[2].end, 100);
  EXPECT_EQ(plane.CheckComplete().message(),
            "payload of b has 60 bytes, and the next byte is 0; its plane has 100");
}

TEST(PlaneReceiverTest, RefusesBytesThatCameBefore) {
  const std::string bytes = SomeBytes(100);
  PlaneReceiver plane("a", 100, 100, InPieces({64, 36}));
  ASSERT_TRUE(ReceivePart(&plane, bytes, 20, 40).ok());
  for (const auto& [begin, end] : {std::pair{20, 40}, {0, 21}, {39, 50}, {25, 30}, {10, 60}}) {
    const absl::Status status = ReceivePart(&plane, bytes, begin, end);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << begin;
    EXPECT_NE(status.message().find("overlap with an earlier chunk"), std::string::npos);
  }
  EXPECT_EQ(plane.received_bytes(), 20);
  EXPECT_TRUE(ReceivePart(&plane, bytes, 0, 20).ok());
  EXPECT_TRUE(ReceivePart(&plane, bytes, 40, 100).ok());
  EXPECT_EQ(Contents(plane.memory()), bytes);
}

TEST(PlaneReceiverTest, RefusesBytesBeyondThePlaneWithoutOverflow) {
  PlaneReceiver plane("c", 8, 10, InPieces({8}));
  for (std::uint64_t offset : {std::uint64_t{9}, std::uint64_t{11}, ~std::uint64_t{0}}) {
    const absl::Status status = plane.Receive(offset, {"xy"});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("8 (10 with the last line's padding)"), std::string::npos);
  }
  EXPECT_EQ(plane.received_bytes(), 0);
}

TEST(PlaneReceiverTest, PaddingIsTakenWholeOrNotAtAll) {
  const std::string bytes = SomeBytes(12);
  PlaneReceiver whole("a", 8, 12, InPieces({8}));
  ASSERT_TRUE(ReceivePart(&whole, bytes, 4, 12).ok());
  EXPECT_FALSE(whole.complete());
  ASSERT_TRUE(ReceivePart(&whole, bytes, 0, 4).ok());
  EXPECT_TRUE(whole.CheckComplete().ok());
  EXPECT_EQ(Contents(whole.memory()), bytes.substr(0, 8));

  PlaneReceiver part("a", 8, 12, InPieces({8}));
  ASSERT_TRUE(ReceivePart(&part, bytes, 0, 10).ok());
  EXPECT_TRUE(part.complete());
  EXPECT_EQ(part.CheckComplete().message(),
            "payload of a has 10 bytes; its plane has 8 (12 with the last line's padding)");
}

TEST(PlaneReceiverTest, EmptyChunksAreNothing) {
  PlaneReceiver plane("a", 4, 4, InPieces({4}));
  EXPECT_TRUE(plane.Receive(4, {}).ok());
  EXPECT_TRUE(plane.Receive(0, {"", ""}).ok());
  EXPECT_EQ(plane.received_bytes(), 0);
}

TEST(PlaneReceiverTest, SeveralThreadsBringChunks) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kChunk = 1000;
  const std::string bytes = SomeBytes(kChunk * 64);
  PlaneReceiver plane("a", bytes.size(), bytes.size(), InPieces({1500, bytes.size() - 1500}));
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = static_cast<std::uint64_t>(t); i < 64; i += kThreads) {
        EXPECT_TRUE(ReceivePart(&plane, bytes, i * kChunk, (i + 1) * kChunk).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(plane.complete());
  EXPECT_EQ(Contents(plane.memory()), bytes);
}

}  // namespace
}  // namespace gemmd
