#include "server/device/host_buffer.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(HostBuffer, MemoryLivesAsLongAsACopyOfItsPiece) {
  HostPiece kept;
  {
    const HostBuffer buffer = AllocateHostBuffer(100);
    ASSERT_EQ(buffer.size(), 1u);
    EXPECT_EQ(buffer[0].size_bytes, 100u);
    kept = buffer[0];
  }
  EXPECT_EQ(kept.owner.use_count(), 1);
  std::memset(kept.data, 1, kept.size_bytes);
}

// Cutting a plane into pieces does not change which bytes are cleared.
TEST(HostBuffer, PaddingIsClearedAcrossPieces) {
  const MatrixLayout layout{DataType::kF16, 4, 3, Order::kRowMajor, 5};
  const std::uint64_t size = layout.size_bytes();
  ASSERT_EQ(size, 36u);
  std::string expected(size, 'x');
  for (int line = 0; line < 3; ++line) expected.replace(line * 10 + 6, 4, 4, '\0');
  for (std::uint64_t cut = 1; cut < size; ++cut) {
    HostBuffer buffer = AllocateHostBuffer(cut);
    buffer.push_back(AllocateHostBuffer(size - cut).front());
    for (const HostPiece& piece : buffer) std::memset(piece.data, 'x', piece.size_bytes);
    ClearPadding(layout, buffer);
    std::string all;
    for (const HostPiece& piece : buffer) all.append(piece.data, piece.size_bytes);
    EXPECT_EQ(all, expected) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace gemmd
