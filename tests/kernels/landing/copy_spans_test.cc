// The copies in the emulator: every byte of every span, and none beside them.
#include "kernels/landing/copy_spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/emulator/session.h"

namespace gemmd {
namespace {

absl::Status Launch(const std::vector<CopySpan>& spans) {
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  return LaunchCopySpans(spans, target);
}

// Spans of every alignment and of lengths from 1 byte on, shuffled, with gaps between them.
TEST(CopySpans, MoveEveryByteAndNoOther) {
  std::mt19937 random(3);
  for (const std::size_t count : {1u, 3u, 16u, 17u, 40u}) {
    constexpr std::size_t kPitch = 9000;
    std::vector<unsigned char> from(count * kPitch + 64);
    std::generate(from.begin(), from.end(), [&] { return static_cast<unsigned char>(random()); });
    std::vector<unsigned char> to(from.size(), 0xA5);
    std::vector<unsigned char> expected = to;
    std::vector<std::size_t> places(count);
    for (std::size_t i = 0; i < count; ++i) places[i] = i;
    std::shuffle(places.begin(), places.end(), random);
    std::vector<CopySpan> spans;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t unit = std::size_t{1} << random() % 5;  // 1 to 16 bytes
      const std::size_t most = count == 1 ? 8192 / unit : 600 / unit;
      const std::size_t bytes = unit * (1 + random() % most);
      const auto aligned = [](std::vector<unsigned char>& plane, std::size_t at) {
        const auto address = reinterpret_cast<std::uintptr_t>(plane.data());
        return at + (16 - (address + at) % 16) % 16;
      };
      const std::size_t from_at = aligned(from, i * kPitch) + unit;
      const std::size_t to_at = aligned(to, places[i] * kPitch) + unit;
      spans.push_back({from.data() + from_at, to.data() + to_at, bytes});
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_at), bytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(to_at));
    }
    const absl::Status status = Launch(spans);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(to == expected) << count;
  }
}

TEST(CopySpans, RefuseWhatTheyCannotTake) {
  char byte = 0;
  const CopySpan good{&byte, &byte, 1};
  EXPECT_EQ(Launch({}).message(), "spans are 0; they must be 1 to 256");
  EXPECT_EQ(Launch(std::vector<CopySpan>(257, good)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Launch({{nullptr, &byte, 1}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Launch({{&byte, nullptr, 1}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Launch({{&byte, &byte, 0}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gemmd
