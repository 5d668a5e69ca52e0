#include "server/device/cuda/resident_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/device/cuda/planes/landing.h"
#include "tests/server/device/cuda/parts.h"

namespace gemmd {
namespace {

class ResidentMemoryTest : public testing::CudaPartsTest {
 protected:
  static std::string Bytes(std::size_t count) {
    std::string bytes(count, '\0');
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * i / 7 + i);
    return bytes;
  }

  // B needs no transposition, and more slabs than there are.
  const Problem problem_ = MakeProblem(3, 1500, 700, DataType::kF32, DataType::kF32);
  const std::string b_ = Bytes(problem_.b.size_bytes());
  const std::unique_ptr<ResidentMemory> resident_ = NewResidentMemory(*host_->staging().Take(2));
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

// Cut anywhere, within lines and between them, and brought in any order.
TEST_F(ResidentMemoryTest, APlaneMayComeInParts) {
  Problem padded = MakeProblem(40, 1501, 70, DataType::kBf16, DataType::kBf16);
  padded.b.leading_dimension = 1507;
  Problem codes = MakeProblem(41, 8, 96, DataType::kBf16, DataType::kBf16);
  codes.a = {DataType::kInt4, 41, 96, Order::kRowMajor, 98};
  codes.a_scaling = Scaling::kVector;
  codes.a_scaling.block_k = 32;
  const std::pair<Problem, WorkPlane> cases[] = {
      {problem_, WorkPlane::kB},
      {padded, WorkPlane::kB},
      {codes, WorkPlane::kA},
      {MakeProblem(300, 9, 501, DataType::kInt8, DataType::kInt32), WorkPlane::kA},  // K is padded
      {MakeProblem(9, 3000, 5, DataType::kF32, DataType::kF32), WorkPlane::kBias}};
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const auto& [problem, plane] = cases[i % std::size(cases)];
    Problem used = problem;
    used.epilogue.has_bias = true;
    SCOPED_TRACE(ToString(used));
    const std::string bytes = Bytes(PlaneOf(used, plane).size_bytes());
    std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
    for (std::uint64_t at = 0; at < bytes.size();) {
      const std::uint64_t part = 1 + random() % (random() % 4 == 0 ? bytes.size() : 2000);
      parts.emplace_back(at, std::min<std::uint64_t>(bytes.size(), at + part));
      at = parts.back().second;
      if (parts.size() == 30) parts.back().second = at = bytes.size();
    }
    std::shuffle(parts.begin(), parts.end(), random);
    auto arrival = resident_->BeginStore(used, plane);
    ASSERT_TRUE(arrival.ok()) << arrival.status();
    for (const auto& [begin, end] : parts) {
      std::string come(bytes.size(), '?');  // others are not there yet
      std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                bytes.begin() + static_cast<std::ptrdiff_t>(end),
                come.begin() + static_cast<std::ptrdiff_t>(begin));
      ASSERT_TRUE((*arrival)->Bring(come.data(), begin, end).ok());
    }
    const auto landed = (*arrival)->Finish();
    ASSERT_TRUE(landed.ok()) << landed.status();
    const auto whole = *resident_->Store(used, plane, bytes.data());
    // With the rows and columns that pad it; what lies between lines is nobody's.
    const MatrixLayout layout = whole->layout();
    ASSERT_EQ((*landed)->size_bytes(), whole->size_bytes());
    for (std::int64_t line = 0; line < layout.outer(); ++line) {
      const std::uint64_t at = ElementBytes(layout, line * layout.leading_dimension);
      ASSERT_EQ(std::memcmp(static_cast<const char*>((*landed)->data()) + at,
                            static_cast<const char*>(whole->data()) + at,
                            ElementBytes(layout, layout.inner())),
                0);
    }
    std::string back = bytes;
    ASSERT_TRUE(resident_->Fetch(**landed, back.data()).ok());
    EXPECT_TRUE(back == bytes);
  }
  EXPECT_EQ(memory_.usage().resident_bytes, 0U);
  EXPECT_TRUE(AllIsFree());
}

TEST_F(ResidentMemoryTest, APlaneThatDoesNotComeWhollyGivesItsMemoryBack) {
  for (int parts = 0; parts < 3; ++parts) {
    auto arrival = resident_->BeginStore(problem_, WorkPlane::kB);
    ASSERT_TRUE(arrival.ok()) << arrival.status();
    EXPECT_GT(memory_.usage().resident_bytes, 0U);
    if (parts > 0) {
      ASSERT_TRUE((*arrival)->Bring(b_.data(), 100, 5000).ok());
    }
    if (parts > 1) {
      cuda_->FailCall("Copy", absl::InternalError("a fault"));
      EXPECT_EQ((*arrival)->Bring(b_.data(), 5000, 9000).message(), "a fault");
    }
    EXPECT_EQ((*arrival)->Finish().status().message(), "bytes of the plane are missing");
    *arrival = nullptr;
    const MemoryUsage usage = memory_.usage();
    EXPECT_EQ(usage.free_bytes(), usage.limit_bytes);
    EXPECT_TRUE(AllIsFree());
  }
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
