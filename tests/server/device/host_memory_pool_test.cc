#include "server/device/host_memory_pool.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

HostPiece Take(HostMemoryPool& pool, std::uint64_t bytes) {
  absl::StatusOr<HostPiece> piece = pool.Allocate(bytes);
  EXPECT_TRUE(piece.ok()) << piece.status();
  return piece.ok() ? *std::move(piece) : HostPiece();
}

TEST(HostMemoryPool, APieceCountsUntilItsLastCopyIsGone) {
  const auto pool = HostMemoryPool::Create(100 * kMiB);
  HostPiece copy;
  {
    const HostPiece piece = Take(*pool, 3 * kMiB + 5);
    EXPECT_EQ(piece.size_bytes, 3 * kMiB + 5);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece.data) % 64, 0u);
    copy = piece;
  }
  EXPECT_EQ(pool->budget().usage().in_flight_bytes, 3 * kMiB + 5);
  std::memset(copy.data, 1, copy.size_bytes);
  copy = {};
  EXPECT_EQ(pool->budget().usage().in_flight_bytes, 0u);
}

TEST(HostMemoryPool, LargeMemoryIsUsedAgain) {
  const auto pool = HostMemoryPool::Create(100 * kMiB);
  const void* const first = Take(*pool, 8 * kMiB).data;
  EXPECT_EQ(pool->kept_bytes(), 8 * kMiB);
  const HostPiece again = Take(*pool, 8 * kMiB - 1);
  EXPECT_EQ(again.data, first);
  EXPECT_EQ(pool->kept_bytes(), 0u);
  EXPECT_NE(Take(*pool, 8 * kMiB).data, first);  // that one is in use
}

TEST(HostMemoryPool, WhatIsReservedElsewhereIsNotCountedAgain) {
  const auto pool = HostMemoryPool::Create(100 * kMiB);
  const absl::StatusOr<MemoryReservation> reservation = pool->budget().Reserve(0, 90 * kMiB);
  ASSERT_TRUE(reservation.ok());
  const void* first = nullptr;
  {
    const absl::StatusOr<HostPiece> piece = pool->AllocateReserved(9 * kMiB);
    ASSERT_TRUE(piece.ok()) << piece.status();
    first = piece->data;
    std::memset(piece->data, 1, piece->size_bytes);
    EXPECT_EQ(pool->budget().usage().in_flight_bytes, 0U);
    EXPECT_EQ(pool->budget().usage().workspace_bytes, 90 * kMiB);
  }
  EXPECT_EQ(pool->kept_bytes(), 10 * kMiB);  // whole huge pages
  EXPECT_EQ(pool->AllocateReserved(9 * kMiB)->data, first);
}

TEST(HostMemoryPool, NoMuchLargerMemoryIsUsedForLess) {
  const auto pool = HostMemoryPool::Create(1000 * kMiB);
  Take(*pool, 64 * kMiB);
  const HostPiece piece = Take(*pool, 8 * kMiB);
  EXPECT_EQ(pool->kept_bytes(), 64 * kMiB);
}

TEST(HostMemoryPool, SmallMemoryIsLeftToTheAllocator) {
  const auto pool = HostMemoryPool::Create(100 * kMiB);
  Take(*pool, kMiB - 1);
  EXPECT_EQ(pool->kept_bytes(), 0u);
}

TEST(HostMemoryPool, NeverMoreIsKeptThanAShareOfTheLimit) {
  const auto pool = HostMemoryPool::Create(64 * kMiB);
  Take(*pool, 10 * kMiB);
  EXPECT_EQ(pool->kept_bytes(), 0u);
  { const std::vector<HostPiece> pieces = {Take(*pool, 6 * kMiB), Take(*pool, 4 * kMiB)}; }
  EXPECT_LE(pool->kept_bytes(), 8 * kMiB);
  EXPECT_GT(pool->kept_bytes(), 0u);
}

TEST(HostMemoryPool, WhatIsKeptMakesRoomForWhatIsAskedFor) {
  const auto pool = HostMemoryPool::Create(80 * kMiB);
  Take(*pool, 8 * kMiB);
  ASSERT_EQ(pool->kept_bytes(), 8 * kMiB);
  const HostPiece most = Take(*pool, 76 * kMiB);
  // Kept and lent together are within the limit.
  EXPECT_EQ(pool->kept_bytes(), 0u);
  const absl::StatusOr<HostPiece> more = pool->Allocate(5 * kMiB);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted) << more.status();
  const absl::StatusOr<HostPiece> never = pool->Allocate(80 * kMiB + 1);
  EXPECT_EQ(never.status().code(), absl::StatusCode::kInvalidArgument) << never.status();
}

TEST(HostMemoryPool, APieceMayOutliveItsPool) {
  auto pool = HostMemoryPool::Create(100 * kMiB);
  HostPiece piece = Take(*pool, 4 * kMiB);
  pool.reset();
  std::memset(piece.data, 1, piece.size_bytes);
}

}  // namespace
}  // namespace gemmd
