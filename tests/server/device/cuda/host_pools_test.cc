#include "server/device/cuda/memory/host_pools.h"

#include <cstdint>
#include <vector>

#include "tests/server/device/cuda/parts.h"

namespace gemmd {
namespace {

class HostPoolsTest : public testing::CudaPartsTest {
 protected:
  bool IsPinned(const HostPiece& piece) const {
    for (const PinnedPool* pool : host_->pinned()) {
      if (pool->Contains(piece.data, piece.size_bytes)) return true;
    }
    return false;
  }
};

constexpr std::uint64_t kSmall = 64 << 10;

TEST_F(HostPoolsTest, AnEighthIsForSmallPlanes) {
  const HostMemoryLimits limits = host_->limits();
  EXPECT_EQ(limits.small_plane_bytes, kSmall);
  EXPECT_EQ(limits.small_bytes, std::uint64_t{2} << 20);
  EXPECT_EQ(limits.large_bytes, std::uint64_t{14} << 20);
  EXPECT_EQ(limits.ordinary_bytes, std::uint64_t{1} << 30);
}

TEST_F(HostPoolsTest, SmallOperandsLeaveAQuarterToSmallResults) {
  std::vector<HostPiece> operands;
  for (int i = 0; i < 24; ++i) {
    operands.push_back(*host_->AllocateOperand(kSmall));
    EXPECT_TRUE(IsPinned(operands.back())) << i;
  }
  EXPECT_FALSE(IsPinned(*host_->AllocateOperand(kSmall)));
  std::vector<HostBuffer> results;
  for (int i = 0; i < 8; ++i) {
    absl::StatusOr<HostBuffer> result =
        host_->AllocateResult({DataType::kF32, 128, 128, Order::kRowMajor, 128});
    ASSERT_TRUE(result.ok()) << i << ": " << result.status();
    results.push_back(*std::move(result));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      host_->AllocateResult({DataType::kF32, 128, 128, Order::kRowMajor, 128}).status()));
  EXPECT_EQ(host_->usage().in_flight_bytes, 32 * kSmall);
  operands.clear();
  results.clear();
  EXPECT_EQ(host_->usage().in_flight_bytes, 0U);
}

TEST_F(HostPoolsTest, ALargeOperandWithoutAPinnedPieceIsOrdinary) {
  const HostPiece most = *host_->AllocateOperand(std::uint64_t{13} << 20);
  EXPECT_TRUE(IsPinned(most));
  const HostPiece other = *host_->AllocateOperand(std::uint64_t{2} << 20);
  EXPECT_FALSE(IsPinned(other));
  EXPECT_FALSE(IsPinned(*host_->AllocateOrdinaryOperand(kSmall)));
  // A result waits for pinned memory.
  EXPECT_TRUE(absl::IsResourceExhausted(
      host_->AllocateResult({DataType::kF32, 1024, 512, Order::kRowMajor, 512}).status()));
}

TEST_F(HostPoolsTest, AResultThatPinnedMemoryNeverHoldsIsOrdinary) {
  const MatrixLayout most{DataType::kF32, 3584, 1024, Order::kRowMajor, 1024};  // 14 MiB
  EXPECT_TRUE(IsPinned(host_->AllocateResult(most)->front()));
  MatrixLayout more = most;
  ++more.rows;
  const absl::StatusOr<HostBuffer> ordinary = host_->AllocateResult(more);
  ASSERT_TRUE(ordinary.ok()) << ordinary.status();
  ASSERT_EQ(ordinary->size(), 1U);
  EXPECT_EQ(ordinary->front().size_bytes, more.size_bytes());
  EXPECT_FALSE(IsPinned(ordinary->front()));
  EXPECT_EQ(host_->usage().in_flight_bytes, 0U);
  // There is 1 GiB of it.
  more.rows = 230000;
  const absl::StatusOr<HostBuffer> second = host_->AllocateResult(more);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(absl::IsResourceExhausted(host_->AllocateResult(more).status()));
  more.rows = 270000;
  EXPECT_TRUE(absl::IsInvalidArgument(host_->AllocateResult(more).status()));
}

TEST_F(HostPoolsTest, StagingCountsAsWorkspaceFromTheStart) {
  const std::uint64_t before = host_->usage().workspace_bytes;
  const absl::StatusOr<HostBuffer> slab = host_->staging().Take(1);
  ASSERT_TRUE(slab.ok());
  EXPECT_EQ(host_->usage().workspace_bytes, before + (1 << 20));
  EXPECT_EQ(host_->usage().in_flight_bytes, 0U);
}

}  // namespace
}  // namespace gemmd
