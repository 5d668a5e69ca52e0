// Operands that lie on several devices: how copies are made, and that they go first.
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/store/copier.h"
#include "server/store/operand_store.h"
#include "tests/server/store/landing_device.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using testing::LandingDevice;

constexpr std::uint64_t kDeviceBytes = 100;

StoreOptions CopyingStore() {
  StoreOptions options = testing::SmallStore();
  options.makes_copies = true;
  return options;
}

class CopiesTest : public ::testing::Test {
 protected:
  CopiesTest() : store_(CopyingStore(), &first_, &clock_, 1) {}

  // On a device, its bytes being of the name.
  std::string Keep(LandingDevice* device, std::int64_t bytes, char name,
                   std::optional<TimeNs> lease = std::nullopt) {
    const MatrixLayout d{DataType::kInt8, bytes, 1, Order::kRowMajor, 1};
    auto result = *store_.BeginResult(Tenant(), d, lease, device);
    EXPECT_TRUE(result->PlaceOn(device).ok());
    std::memset(result->resident()->memory(), name, static_cast<std::size_t>(bytes));
    return store_.Keep(std::move(result));
  }
  std::shared_ptr<StoredOperand> Use(const std::string& handle) {
    return *store_.Use(Tenant(), {handle, {}}, "b");
  }
  // As a product places it on its device.
  absl::StatusOr<StoredOperand::Placed> Place(const std::shared_ptr<StoredOperand>& operand,
                                              LandingDevice* device) {
    Problem problem =
        MakeProblem(1, 1, operand->form().data.rows, DataType::kInt8, DataType::kInt32);
    problem.b = operand->form().data;
    problem.transpose_b = true;  // as it lies
    std::uint64_t landed_bytes = 0;
    return operand->PlaceOn(device, problem, WorkPlane::kB, &landed_bytes);
  }
  OperandCopy CopyOf(const std::vector<std::string>& handles, LandingDevice* device) {
    OperandCopy copy;
    for (const std::string& handle : handles) copy.operands.push_back(Use(handle));
    copy.device = device;
    copy.place = [this, operands = copy.operands, device] {
      absl::Status status;
      for (const auto& each : operands) {
        if (status.ok()) status = Place(each, device).status();
      }
      return status;
    };
    return copy;
  }
  bool Copy(const std::string& handle, LandingDevice* device) {
    const bool is_begun = store_.StartCopy(CopyOf({handle}, device));
    store_.WaitForCopies();
    return is_begun;
  }
  std::uint64_t BytesOn(LandingDevice& device) { return device.memory().usage().resident_bytes; }

  testing::FakeClock clock_;
  LandingDevice first_{kDeviceBytes};
  LandingDevice second_{kDeviceBytes};
  OperandStore store_;
};

TEST_F(CopiesTest, ACopyHasTheBytesAndIsMadeOnce) {
  const std::string handle = Keep(&first_, 8, 'x');
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Copy(handle, &second_));
  const auto operand = Use(handle);
  EXPECT_TRUE(operand->is_on(first_));
  EXPECT_TRUE(operand->is_on(second_));
  EXPECT_EQ(second_.stores, 1);
  const auto placed = Place(operand, &second_);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(std::string(static_cast<const char*>(placed->landed->data()), 8), "xxxxxxxx");
  const StoreStatistics statistics = store_.statistics();
  EXPECT_EQ(statistics.copies, 1u);
  EXPECT_EQ(statistics.copy_bytes, 8u);
  EXPECT_EQ(statistics.device_bytes, 16u);
  // No client asked for it.
  EXPECT_EQ(statistics.reserved_bytes, 8u);
}

TEST_F(CopiesTest, ReleasingOrEvictingItFreesAllOfThem) {
  const std::string released = Keep(&first_, 8, 'x');
  EXPECT_TRUE(Copy(released, &second_));
  EXPECT_TRUE(store_.Release(Tenant(), {released, {}}).ok());
  EXPECT_EQ(BytesOn(first_) + BytesOn(second_), 0u);
  const std::string evicted = Keep(&first_, 8, 'y', 0);
  EXPECT_TRUE(Copy(evicted, &second_));
  EXPECT_TRUE(store_.EvictFrom(&first_));
  EXPECT_EQ(BytesOn(first_) + BytesOn(second_), 0u);
  EXPECT_EQ(store_.statistics().copy_bytes, 0u);
}

// The sole operand is larger, and stays all the same.
TEST_F(CopiesTest, PressureTakesCopiesBeforeWhatLiesNowhereElse) {
  Keep(&second_, 30, 's');
  const std::string small = Keep(&first_, 8, 'x');
  const std::string large = Keep(&first_, 16, 'y');
  EXPECT_TRUE(Copy(small, &second_));
  EXPECT_TRUE(Copy(large, &second_));
  const int fetches = second_.fetches;
  EXPECT_EQ(store_.MoveOutOf(&second_), 16u);
  EXPECT_EQ(store_.MoveOutOf(&second_), 8u);
  EXPECT_EQ(second_.fetches, fetches);
  EXPECT_EQ(BytesOn(second_), 30u);
  StoreStatistics statistics = store_.statistics();
  EXPECT_EQ(statistics.copies_dropped, 2u);
  EXPECT_EQ(statistics.copy_bytes, 0u);
  EXPECT_EQ(statistics.moves_out, 0u);
  // Now it is the sole one's turn.
  EXPECT_EQ(store_.MoveOutOf(&second_), 30u);
  EXPECT_EQ(store_.statistics().moves_out, 1u);
}

// Either is a copy of the other.
TEST_F(CopiesTest, WhereItWasFirstItMayGoToo) {
  const std::string handle = Keep(&first_, 8, 'x');
  EXPECT_TRUE(Copy(handle, &second_));
  EXPECT_EQ(store_.MoveOutOf(&first_), 8u);
  EXPECT_EQ(Use(handle)->holder(), &second_);
  EXPECT_EQ(store_.statistics().copy_bytes, 0u);
  // It lies nowhere else any more.
  EXPECT_EQ(Use(handle)->DropCopy(&second_), 0u);
  EXPECT_EQ(Use(handle)->Whole(PlaneName::kData)->data[7], 'x');
}

TEST_F(CopiesTest, ACopyThatAProductUsesStays) {
  const std::string handle = Keep(&first_, 8, 'x');
  EXPECT_TRUE(Copy(handle, &second_));
  const auto operand = Use(handle);
  auto placed = Place(operand, &second_);
  EXPECT_EQ(operand->idle_copy_bytes(&second_), 0u);
  EXPECT_EQ(operand->DropCopy(&second_), 0u);
  // The operand is in use, and its other copy is not.
  EXPECT_EQ(store_.MoveOutOf(&first_), 8u);
  placed = absl::CancelledError("the product is over");
  EXPECT_EQ(store_.MoveOutOf(&second_), std::nullopt);
}

TEST_F(CopiesTest, TakesHalfOfWhatIsFreeAtMost) {
  const std::string handle = Keep(&first_, 30, 'x');
  auto taken = *second_.memory().Reserve(kDeviceBytes - 59, 0);
  EXPECT_FALSE(Copy(handle, &second_));
  EXPECT_EQ(store_.statistics().copies_without_room, 1u);
  taken.Release();
  EXPECT_TRUE(Copy(handle, &second_));
  EXPECT_EQ(BytesOn(second_), 30u);
}

// The memory goes while the copy is under way.
TEST_F(CopiesTest, OneThatFindsNoMemoryEndsQuietly) {
  const std::string small = Keep(&first_, 8, 'x');
  const std::string large = Keep(&first_, 20, 'y');
  const std::string sole = Keep(&second_, 10, 's', 0);
  OperandCopy copy = CopyOf({small, large}, &second_);
  MemoryReservation taken;
  copy.place = [&, place = std::move(copy.place)] {
    taken = *second_.memory().Reserve(kDeviceBytes - 20, 0);
    return place();
  };
  EXPECT_TRUE(store_.StartCopy(std::move(copy)));
  store_.WaitForCopies();
  EXPECT_EQ(store_.statistics().copies, 0u);
  EXPECT_EQ(store_.statistics().copies_without_room, 1u);
  // Half of it would serve nobody, and nothing else had to go.
  EXPECT_EQ(BytesOn(second_), 10u);
  EXPECT_TRUE(Use(sole)->is_on(second_));
  // It is not tried again at once.
  EXPECT_FALSE(Use(small)->AddCopyDemand(50, 100, clock_.Now()));
  EXPECT_FALSE(Use(small)->AddCopyDemand(50, 100, clock_.Now()));
  clock_.Advance(CopyDemand::kRest);
  EXPECT_FALSE(Use(small)->AddCopyDemand(50, 100, clock_.Now()));
  EXPECT_TRUE(Use(small)->AddCopyDemand(50, 100, clock_.Now()));
}

TEST_F(CopiesTest, WhatPressureTookIsEarnedAnew) {
  const std::string handle = Keep(&first_, 8, 'x');
  EXPECT_TRUE(Copy(handle, &second_));
  EXPECT_FALSE(Use(handle)->AddCopyDemand(50, 100, clock_.Now()));
  EXPECT_EQ(store_.MoveOutOf(&second_), 8u);
  for (int i = 0; i < 9; ++i) {
    EXPECT_FALSE(Use(handle)->AddCopyDemand(50, 100, clock_.Now()));
    clock_.Advance(kSecond);
  }
}

TEST_F(CopiesTest, ACopyBeginsTheDemandAnew) {
  const std::string handle = Keep(&first_, 8, 'x');
  EXPECT_FALSE(Use(handle)->AddCopyDemand(50, 100, clock_.Now()));
  EXPECT_TRUE(Use(handle)->AddCopyDemand(50, 100, clock_.Now()));
  OperandCopy copy = CopyOf({handle}, &second_);
  // The waits while it is made say nothing of a third.
  copy.place = [&, place = std::move(copy.place)] {
    EXPECT_FALSE(Use(handle)->AddCopyDemand(50, 100, clock_.Now()));
    EXPECT_TRUE(Use(handle)->AddCopyDemand(50, 100, clock_.Now()));
    return place();
  };
  EXPECT_TRUE(store_.StartCopy(std::move(copy)));
  store_.WaitForCopies();
  EXPECT_FALSE(Use(handle)->AddCopyDemand(50, 100, clock_.Now()));
}

TEST(Copier, MakesOneCopyAtATime) {
  Copier copier;
  std::atomic<bool> goes_on = false;
  std::atomic<int> made = 0;
  EXPECT_TRUE(copier.Take([&] {
    while (!goes_on) std::this_thread::yield();
    ++made;
  }));
  EXPECT_FALSE(copier.Take([&] { made += 10; }));
  goes_on = true;
  copier.WaitUntilIdle();
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(copier.Take([&] { ++made; }));
  copier.WaitUntilIdle();
  EXPECT_EQ(made, 2);
}

// Bytes, and where they lie, after anything that several threads do at random.
TEST_F(CopiesTest, NoHistoryLosesABytesOrMemory) {
  constexpr int kOperands = 5;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    std::vector<std::string> handles;
    for (int i = 0; i < kOperands; ++i) {
      handles.push_back(Keep(i % 2 == 0 ? &first_ : &second_, 6 + i, static_cast<char>('a' + i)));
    }
    const auto play = [&](std::uint32_t own_seed) {
      std::mt19937 random(own_seed);
      for (int step = 0; step < 60; ++step) {
        const std::size_t number = random() % kOperands;
        LandingDevice* const device = random() % 2 == 0 ? &first_ : &second_;
        switch (random() % 6) {
          case 0:
            store_.StartCopy(CopyOf({handles[number]}, device));
            break;
          case 1:
            store_.MoveOutOf(device);
            break;
          case 2:
            Use(handles[number])->DropCopy(device);
            break;
          case 3:
            EXPECT_EQ(Use(handles[number])->Whole(PlaneName::kData)->data[5],
                      static_cast<char>('a' + number));
            break;
          default: {
            const auto placed = Place(Use(handles[number]), device);
            if (!placed.ok()) {
              EXPECT_TRUE(absl::IsResourceExhausted(placed.status())) << placed.status();
              break;
            }
            EXPECT_EQ(static_cast<const char*>(placed->landed->data())[5],
                      static_cast<char>('a' + number));
          }
        }
      }
    };
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 3; ++i) threads.emplace_back(play, seed * 3 + i);
    for (std::thread& each : threads) each.join();
    store_.WaitForCopies();
    for (int i = 0; i < kOperands; ++i) {
      const auto operand = Use(handles[static_cast<std::size_t>(i)]);
      EXPECT_EQ(operand->Whole(PlaneName::kData)->data[5], static_cast<char>('a' + i));
      // One copy a device, whoever made it.
      EXPECT_LE(operand->device_bytes(first_), operand->size_bytes());
      EXPECT_LE(operand->device_bytes(second_), operand->size_bytes());
    }
    for (const std::string& handle : handles) {
      EXPECT_TRUE(store_.Release(Tenant(), {handle, {}}).ok());
    }
    ASSERT_EQ(BytesOn(first_) + BytesOn(second_), 0u) << "seed " << seed;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gemmd
