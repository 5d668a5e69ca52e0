// A stored operand on devices that have memory of their own.
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "server/store/operand_store.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using testing::StoredMatrix;

// Lands an operand by copying it, K-major ones apart from others.
class LandingDevice final : public Device {
 public:
  explicit LandingDevice(std::uint64_t memory_bytes) : memory_(memory_bytes) {}

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  int max_in_flight() const override { return 1; }
  void Submit(DeviceLaunch, Callback) override {}
  bool uses_host_memory() const override { return false; }
  Problem Landed(const Problem& problem) const override {
    Problem landed = problem;
    landed.b.order = problem.transpose_b ? Order::kRowMajor : Order::kColumnMajor;
    landed.b.leading_dimension = landed.b.inner();
    return landed;
  }
  absl::StatusOr<HostPiece> AllocateResident(std::uint64_t bytes) override {
    return AllocateHostBuffer(bytes).front();
  }
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> Store(const Problem& problem, OperandSide,
                                                               const void* data) override {
    absl::StatusOr<MemoryReservation> reservation = memory_.ReserveResident(problem.b.size_bytes());
    if (!reservation.ok()) return reservation.status();
    ++stores;
    auto resident = std::make_shared<Resident>();
    resident->reservation = *std::move(reservation);
    resident->bytes.assign(static_cast<const char*>(data), problem.b.size_bytes());
    return std::shared_ptr<const ResidentOperand>(std::move(resident));
  }
  absl::Status Fetch(const ResidentOperand& operand, void* to) override {
    ++fetches;
    const std::string& bytes = static_cast<const Resident&>(operand).bytes;
    std::memcpy(to, bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  int stores = 0;
  int fetches = 0;

 private:
  struct Resident final : ResidentOperand {
    const void* data() const override { return bytes.data(); }
    std::string bytes;
    MemoryReservation reservation;
  };
  DeviceTraits traits_;
  MemoryBudget memory_;
};

class LandingTest : public ::testing::Test {
 protected:
  LandingTest() : store_(testing::SmallStore(), &device_, &clock_, 1) {
    const absl::string_view piece = matrix_.bytes;
    auto session = *store_.BeginUpload(Tenant(), matrix_.digest, matrix_.form, 0);
    EXPECT_TRUE(*session->Receive({StoredPlane::kData, 0, {&piece, 1}}));
    problem_ = MakeProblem(1, 1, 8, DataType::kInt8, DataType::kInt32);
    problem_.b = matrix_.form.data;
  }

  std::shared_ptr<StoredOperand> Use() { return *store_.Use(Tenant(), matrix_.key(), "b"); }

  testing::FakeClock clock_;
  LandingDevice device_{500};
  LandingDevice second_{500};
  OperandStore store_;
  const StoredMatrix matrix_{"01234567"};
  Problem problem_;
};

TEST_F(LandingTest, TheFirstUseLandsItAndLaterOnesFindIt) {
  EXPECT_EQ(Use()->holder(), nullptr);
  EXPECT_EQ(device_.memory().usage().resident_bytes, 0u);
  for (int i = 0; i < 3; ++i) {
    const auto placed = Use()->PlaceOn(&device_, problem_, OperandSide::kB);
    ASSERT_TRUE(placed.ok()) << placed.status();
    EXPECT_EQ(std::string(static_cast<const char*>(placed->landed->data()), 8), matrix_.bytes);
  }
  EXPECT_EQ(device_.stores, 1);
  EXPECT_EQ(Use()->holder(), &device_);
  EXPECT_EQ(store_.Get(Tenant(), matrix_.key())->device_bytes, 8u);
}

TEST_F(LandingTest, AnotherFormOrDeviceGetsItFromTheFirst) {
  ASSERT_TRUE(Use()->PlaceOn(&device_, problem_, OperandSide::kB).ok());
  Problem transposed = problem_;
  transposed.transpose_b = true;
  ASSERT_TRUE(Use()->PlaceOn(&device_, transposed, OperandSide::kB).ok());
  EXPECT_EQ(device_.stores, 2);
  EXPECT_EQ(device_.fetches, 1);
  const auto placed = Use()->PlaceOn(&second_, problem_, OperandSide::kB);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(std::string(static_cast<const char*>(placed->landed->data()), 8), matrix_.bytes);
  EXPECT_EQ(second_.stores, 1);
}

TEST_F(LandingTest, ADownloadBringsItBack) {
  ASSERT_TRUE(Use()->PlaceOn(&device_, problem_, OperandSide::kB).ok());
  const auto piece = Use()->Whole(StoredPlane::kData);
  ASSERT_TRUE(piece.ok()) << piece.status();
  EXPECT_EQ(std::string(piece->data, piece->size_bytes), matrix_.bytes);
}

TEST_F(LandingTest, WhatHasLandedIsEvictedForItsDevicesSake) {
  EXPECT_FALSE(store_.EvictFrom(&device_));  // nothing of it is there yet
  ASSERT_TRUE(Use()->PlaceOn(&device_, problem_, OperandSide::kB).ok());
  EXPECT_FALSE(store_.EvictFrom(&second_));
  EXPECT_TRUE(store_.EvictFrom(&device_));
  EXPECT_EQ(device_.memory().usage().resident_bytes, 0u);
}

TEST_F(LandingTest, AKeptResultLeavesTheMemoryItWasMadeInWhenOthersNeedIt) {
  auto result = *store_.BeginResult(Tenant(), matrix_.form.data, std::nullopt, &device_);
  std::memcpy(result->memory().front().data, matrix_.bytes.data(), 8);
  const std::weak_ptr<void> made_in = result->memory().front().owner;
  const std::string handle = store_.Keep(std::move(result));
  EXPECT_FALSE(made_in.expired());
  EXPECT_TRUE(store_.FreeResultMemory());
  EXPECT_TRUE(made_in.expired());
  EXPECT_FALSE(store_.FreeResultMemory());
  const auto piece = (*store_.Read(Tenant(), {handle, {}}))->Whole(StoredPlane::kData);
  EXPECT_EQ(std::string(piece->data, piece->size_bytes), matrix_.bytes);
}

TEST_F(LandingTest, AResultThatWasReleasedHasNoMemoryToLeave) {
  const std::string handle =
      store_.Keep(*store_.BeginResult(Tenant(), matrix_.form.data, std::nullopt, &device_));
  ASSERT_TRUE(store_.Release(Tenant(), {handle, {}}).ok());
  EXPECT_FALSE(store_.FreeResultMemory());
}

TEST_F(LandingTest, AFullDeviceLeavesItWhereItIs) {
  auto rest = *device_.memory().Reserve(495, 0);
  EXPECT_EQ(Use()->PlaceOn(&device_, problem_, OperandSide::kB).status().code(),
            absl::StatusCode::kResourceExhausted);
  rest.Release();
  EXPECT_TRUE(Use()->PlaceOn(&device_, problem_, OperandSide::kB).ok());
}

}  // namespace
}  // namespace gemmd
