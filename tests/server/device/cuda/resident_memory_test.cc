#include "server/device/cuda/resident_memory.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "tests/server/device/cuda/parts.h"

namespace gemmd {
namespace {

class ResidentMemoryTest : public testing::CudaPartsTest {
 protected:
  ResidentMemoryTest() {
    ResidentMemory::Resources resources;
    resources.stream = NewStream();
    resources.landing_ring = NewRing(4);
    resources.landing_slot = NewSlot();
    resources.fetch_slot = NewSlot();
    resources.fetch_slabs = *host_->staging().Take(2);
    resident_ = std::make_unique<ResidentMemory>(
        ResidentMemory::Parts{cuda_, large_issuer_.get(), &memory_, watcher_.get()},
        std::move(resources));
  }

  static std::string Bytes(std::size_t count) {
    std::string bytes(count, '\0');
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * i / 7 + i);
    return bytes;
  }

  // B needs no transposition, and more slabs than there are.
  const Problem problem_ = MakeProblem(3, 1500, 700, DataType::kF32, DataType::kF32);
  const std::string b_ = Bytes(problem_.b.size_bytes());
  std::unique_ptr<ResidentMemory> resident_;
};

TEST_F(ResidentMemoryTest, APlaneComesBackAsItWasStored) {
  auto stored = resident_->Store(problem_, WorkPlane::kB, b_.data());
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_GE((*stored)->size_bytes(), b_.size());
  EXPECT_EQ(memory_.usage().resident_bytes, (*stored)->size_bytes());
  EXPECT_GE(resident_->copied().in, b_.size());
  EXPECT_EQ(resident_->copied().out, 0U);
  std::string back(b_.size(), '\0');
  ASSERT_TRUE(resident_->Fetch(**stored, back.data()).ok());
  EXPECT_TRUE(back == b_);
  EXPECT_EQ(resident_->copied().out, b_.size());
  *stored = nullptr;
  EXPECT_EQ(memory_.usage().resident_bytes, 0U);
  EXPECT_TRUE(AllIsFree());
}

TEST_F(ResidentMemoryTest, AnotherUseMovesNoByteToTheHost) {
  const auto stored = resident_->Store(problem_, WorkPlane::kB, b_.data());
  ASSERT_TRUE(stored.ok()) << stored.status();
  const CopiedBytes before = resident_->copied();
  const auto again = resident_->StoreAgain(**stored, problem_, WorkPlane::kB);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(resident_->copied().in, before.in);
  EXPECT_EQ(resident_->copied().out, before.out);
  std::string back(b_.size(), '\0');
  ASSERT_TRUE(resident_->Fetch(**again, back.data()).ok());
  EXPECT_TRUE(back == b_);
}

TEST_F(ResidentMemoryTest, ARefusedPlaneHoldsNothing) {
  cuda_->FailCall("Copy", absl::InternalError("cudaMemcpy2DAsync: invalid pitch"));
  EXPECT_TRUE(absl::IsInternal(resident_->Store(problem_, WorkPlane::kB, b_.data()).status()));
  EXPECT_EQ(memory_.usage().resident_bytes, 0U);
  EXPECT_TRUE(AllIsFree());
  EXPECT_EQ(losses_, 0);
  EXPECT_TRUE(resident_->Store(problem_, WorkPlane::kB, b_.data()).ok());
}

TEST_F(ResidentMemoryTest, ALossIsToldAndRefusesWhatIsLater) {
  const auto stored = resident_->Store(problem_, WorkPlane::kB, b_.data());
  ASSERT_TRUE(stored.ok()) << stored.status();
  cuda_->FailCall("Copy", absl::UnavailableError("cudaErrorIllegalAddress"));
  EXPECT_TRUE(absl::IsUnavailable(resident_->Store(problem_, WorkPlane::kB, b_.data()).status()));
  EXPECT_EQ(losses_, 1);
  std::string back(b_.size(), '\0');
  EXPECT_TRUE(absl::IsUnavailable(resident_->Fetch(**stored, back.data())));
  EXPECT_TRUE(absl::IsUnavailable(resident_->AllocateKept(problem_.d).status()));
  EXPECT_EQ(losses_, 1);
}

TEST_F(ResidentMemoryTest, WhatIsKeptCountsToTheBudget) {
  absl::StatusOr<MemoryReservation> others = memory_.Reserve(kMemory - 65536, 0);
  ASSERT_TRUE(others.ok());
  auto kept = resident_->AllocateKept(problem_.d);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(memory_.usage().resident_bytes, (*kept)->size_bytes());
  const MatrixLayout large{DataType::kF32, 256, 256, Order::kRowMajor, 256};
  EXPECT_TRUE(absl::IsResourceExhausted(resident_->AllocateKept(large).status()));
  *kept = nullptr;
  EXPECT_EQ(memory_.usage().resident_bytes, 0U);
}

}  // namespace
}  // namespace gemmd
