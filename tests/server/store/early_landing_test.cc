// Uploads that land while they come.
#include "server/store/early_landing.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/store/operand_store.h"
#include "tests/server/store/landing_device.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using testing::LandingDevice;
using testing::StoredMatrix;

constexpr std::uint64_t kMiB = 1 << 20;

std::string RandomBytes(std::uint64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class EarlyLandingTest : public ::testing::Test {
 protected:
  static StoreOptions Options(std::vector<Device*> devices) {
    StoreOptions options = testing::SmallStore();
    options.all = {8, 64 * kMiB};
    options.tenant = {8, 64 * kMiB};
    options.landing_devices = std::move(devices);
    options.early_landing_bytes = 4 * kMiB;  // and so brought one by one
    return options;
  }

  std::unique_ptr<OperandStore::UploadStream> Begin() {
    return *store_.BeginUpload(Tenant(), matrix_.digest, matrix_.form, std::nullopt);
  }
  absl::StatusOr<bool> Send(OperandStore::UploadStream* stream, std::uint64_t begin,
                            std::uint64_t end) {
    const absl::string_view piece =
        absl::string_view(matrix_.bytes).substr(begin, std::min(end, kSize) - begin);
    return stream->Receive({PlaneName::kData, begin, {&piece, 1}});
  }
  // Sends the rest, and returns the bytes that the server has then.
  std::string SendRest(OperandStore::UploadStream* stream, std::uint64_t begin) {
    const absl::StatusOr<bool> is_whole = Send(stream, begin, kSize);
    if (!is_whole.ok()) return is_whole.status().ToString();
    EXPECT_TRUE(*is_whole);
    const auto operand = *store_.Use(Tenant(), matrix_.key(), "a");
    const absl::StatusOr<HostPiece> whole = operand->Whole(PlaneName::kData);
    return whole.ok() ? std::string(whole->data, whole->size_bytes) : whole.status().ToString();
  }
  // Returns a notification that comes when the next landing begins.
  std::shared_ptr<absl::Notification> ToldWhenItBegins() {
    auto brought = std::make_shared<absl::Notification>();
    auto is_first = std::make_shared<std::atomic<bool>>(true);
    device_.on_brought = [=] {
      if (is_first->exchange(false)) brought->Notify();
    };
    return brought;
  }
  // Sends three pieces, and waits until some have been brought.
  std::unique_ptr<OperandStore::UploadStream> BeginToLand() {
    const std::shared_ptr<absl::Notification> brought = ToldWhenItBegins();
    auto stream = Begin();
    EXPECT_FALSE(*Send(stream.get(), 0, 3 * kMiB));
    brought->WaitForNotification();
    return stream;
  }
  std::uint64_t resident_bytes() { return device_.memory().usage().resident_bytes; }

  static constexpr std::uint64_t kSize = 7 * kMiB + 77;
  testing::FakeClock clock_;
  LandingDevice device_{40 * kMiB};
  OperandStore store_{Options({&device_}), &device_, &clock_, 1};
  const StoredMatrix matrix_{RandomBytes(kSize, 1)};
};

TEST_F(EarlyLandingTest, TheDataAreThereWhenTheLastByteHasCome) {
  auto stream = BeginToLand();
  EXPECT_EQ(resident_bytes(), kSize);
  EXPECT_TRUE(SendRest(stream.get(), 3 * kMiB) == matrix_.bytes);
  EXPECT_EQ(device_.arrivals, 1);
  EXPECT_EQ(device_.stores, 0);
  EXPECT_EQ(device_.brought_bytes, kSize);
  const auto operand = *store_.Use(Tenant(), matrix_.key(), "a");
  EXPECT_EQ(operand->holder(), &device_);
  EXPECT_EQ(device_.fetches, 1);  // the host has no copy
  EXPECT_EQ(store_.statistics().landings, 1U);
  EXPECT_EQ(store_.statistics().landed_bytes, kSize);
  EXPECT_EQ(store_.statistics().device_bytes, kSize);
}

// Several streams bring the bytes in any order, each byte once or more.
TEST_F(EarlyLandingTest, AnyOrderGivesTheSameBytes) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    LandingDevice device(40 * kMiB);
    OperandStore store(Options({&device}), &device, &clock_, 1);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        std::mt19937 random(seed * 3 + i);
        const std::uint64_t step = 100000 + random() % kMiB;
        std::vector<std::uint64_t> begins;
        for (std::uint64_t at = 0; at < kSize; at += step) begins.push_back(at);
        std::shuffle(begins.begin(), begins.end(), random);
        auto stream = *store.BeginUpload(Tenant(), matrix_.digest, matrix_.form, std::nullopt);
        for (const std::uint64_t begin : begins) {
          const absl::string_view piece = absl::string_view(matrix_.bytes).substr(begin, step);
          ASSERT_TRUE(stream->Receive({PlaneName::kData, begin, {&piece, 1}}).ok());
        }
        EXPECT_TRUE(stream->End().ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    const auto operand = *store.Use(Tenant(), matrix_.key(), "a");
    const absl::StatusOr<HostPiece> whole = operand->Whole(PlaneName::kData);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_TRUE(std::string(whole->data, whole->size_bytes) == matrix_.bytes);
    EXPECT_EQ(device.arrivals + device.stores, 1);
    EXPECT_EQ(device.memory().usage().resident_bytes, kSize);
    EXPECT_EQ(store.statistics().landings, 1U);
  }
}

// Its scales come in between, and land with their first use.
TEST_F(EarlyLandingTest, TheDataAloneLandEarly) {
  OperandForm form;
  form.data = {DataType::kInt8, 1024, 6000, Order::kRowMajor, 6000};
  form.scales = MatrixLayout{DataType::kF32, 1024, 1, Order::kRowMajor, 1};
  const std::vector<std::string> planes = {RandomBytes(form.data.size_bytes(), 3),
                                           std::string(form.scales->size_bytes(), '\0')};
  const Sha256Digest digest = testing::DigestOfBytes(form, planes);
  auto stream = *store_.BeginUpload(Tenant(), digest, form, std::nullopt);
  const absl::string_view scales = planes[1];
  const absl::string_view first = absl::string_view(planes[0]).substr(0, 2 * kMiB);
  const absl::string_view rest = absl::string_view(planes[0]).substr(2 * kMiB);
  const std::shared_ptr<absl::Notification> brought = ToldWhenItBegins();
  ASSERT_FALSE(*stream->Receive({PlaneName::kData, 0, {&first, 1}}));
  brought->WaitForNotification();
  ASSERT_FALSE(*stream->Receive({PlaneName::kScales, 0, {&scales, 1}}));
  ASSERT_TRUE(*stream->Receive({PlaneName::kData, 2 * kMiB, {&rest, 1}}));
  const auto operand = *store_.Use(Tenant(), {{}, ToBytes(digest)}, "a");
  for (const PlaneName plane : {PlaneName::kData, PlaneName::kScales}) {
    const HostPiece whole = *operand->Whole(plane);
    EXPECT_TRUE(std::string(whole.data, whole.size_bytes) == planes[plane == PlaneName::kScales]);
  }
  EXPECT_EQ(resident_bytes(), form.data.size_bytes());
  EXPECT_EQ(device_.brought_bytes, form.data.size_bytes());
}

TEST_F(EarlyLandingTest, OfTwoDevicesTheRoomierHasItAndTheOtherNothing) {
  LandingDevice other(43 * kMiB);  // which has less room than the first one once it has it
  OperandStore store(Options({&device_, &other}), &device_, &clock_, 1);
  auto stream = *store.BeginUpload(Tenant(), matrix_.digest, matrix_.form, std::nullopt);
  const absl::string_view piece = matrix_.bytes;
  ASSERT_TRUE(*stream->Receive({PlaneName::kData, 0, {&piece, 1}}));
  EXPECT_EQ(resident_bytes(), 0U);
  EXPECT_EQ(other.memory().usage().resident_bytes, kSize);
  EXPECT_EQ((*store.Use(Tenant(), matrix_.key(), "a"))->holder(), &other);
}

TEST_F(EarlyLandingTest, OtherBytesThanTheDigestSaysLeaveNothing) {
  auto stream = BeginToLand();
  const std::string wrong(kSize - 3 * kMiB, 'x');
  const absl::string_view piece = wrong;
  EXPECT_FALSE(stream->Receive({PlaneName::kData, 3 * kMiB, {&piece, 1}}).ok());
  stream = nullptr;
  // The thread that brings may have the last reference.
  while (store_.statistics().reserved_bytes != 0) std::this_thread::yield();
  while (resident_bytes() != 0) std::this_thread::yield();
}

TEST_F(EarlyLandingTest, AnAbandonedUploadGivesTheDevicesMemoryBack) {
  auto stream = BeginToLand();
  stream = nullptr;
  EXPECT_EQ(resident_bytes(), kSize);
  // Somebody needs the store's memory once its lease has run out.
  clock_.Advance(21 * kSecond);
  const StoredMatrix other(std::string(60 * kMiB, 'x'));
  EXPECT_TRUE(store_.BeginUpload(Tenant(), other.digest, other.form, std::nullopt).ok());
  EXPECT_TRUE(store_.Release(Tenant(), other.key()).ok());
  EXPECT_EQ(store_.statistics().reserved_bytes, 0U);
  // The thread that brings may have the last reference.
  while (resident_bytes() != 0) std::this_thread::yield();
}

TEST_F(EarlyLandingTest, GivesWayToWhoNeedsTheMemoryAndLandsAtTheEnd) {
  auto stream = BeginToLand();
  EXPECT_EQ(store_.MoveOutOf(&device_), kSize);
  EXPECT_EQ(resident_bytes(), 0U);
  EXPECT_EQ(store_.MoveOutOf(&device_), std::nullopt);
  EXPECT_TRUE(SendRest(stream.get(), 3 * kMiB) == matrix_.bytes);
  EXPECT_EQ(device_.arrivals, 1);
  EXPECT_EQ(device_.stores, 1);
  EXPECT_EQ(resident_bytes(), kSize);
}

TEST_F(EarlyLandingTest, WithoutRoomItWaitsInHostMemory) {
  auto filler = *device_.memory().Reserve(39 * kMiB, 0);
  auto stream = Begin();
  EXPECT_TRUE(SendRest(stream.get(), 0) == matrix_.bytes);
  EXPECT_EQ((*store_.Use(Tenant(), matrix_.key(), "a"))->holder(), nullptr);
  EXPECT_EQ(resident_bytes(), 0U);
}

TEST_F(EarlyLandingTest, AFaultOnTheWayLeavesItToTheEnd) {
  device_.bring_until = 2 * kMiB;
  auto stream = BeginToLand();
  EXPECT_TRUE(SendRest(stream.get(), 3 * kMiB) == matrix_.bytes);
  EXPECT_EQ(device_.stores, 1);
  EXPECT_EQ(resident_bytes(), kSize);
  EXPECT_EQ(store_.statistics().landings, 1U);
}

TEST_F(EarlyLandingTest, SmallUploadsLandWhenTheyAreWhole) {
  const StoredMatrix small(RandomBytes(4 * kMiB - 1, 2));
  const absl::string_view piece = small.bytes;
  auto stream = *store_.BeginUpload(Tenant(), small.digest, small.form, std::nullopt);
  ASSERT_TRUE(*stream->Receive({PlaneName::kData, 0, {&piece, 1}}));
  EXPECT_EQ(device_.arrivals, 0);
  EXPECT_EQ(device_.stores, 1);
}

// It is whole, or nothing.
TEST(EarlyLanding, MayEndWhileItIsGivenUp) {
  constexpr std::uint64_t kBatch = 1000;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    LandingDevice device(kMiB);
    KeyedPool thread(1);
    const StoredMatrix matrix(RandomBytes(6 * kBatch, i));
    Problem problem = MakeProblem(static_cast<std::int64_t>(matrix.bytes.size()), 1, 1,
                                  DataType::kInt8, DataType::kInt32);
    HostPiece data = AllocateHostBuffer(matrix.bytes.size()).front();
    std::copy(matrix.bytes.begin(), matrix.bytes.end(), data.data);
    const auto early = std::make_shared<EarlyLanding>(
        std::vector<Device*>{&device}, problem, WorkPlane::kA, std::move(data), kBatch, &thread);
    for (std::uint64_t at = 0; at < matrix.bytes.size(); at += kBatch / 2) {
      early->Add({at, at + kBatch / 2});
    }
    std::thread other([&] { early->Drop(); });
    const std::shared_ptr<const ResidentOperand> landed = early->Finish();
    other.join();
    EXPECT_EQ(device.early_ends, 0);
    EXPECT_EQ(device.memory().usage().resident_bytes, landed == nullptr ? 0 : 6 * kBatch);
    if (landed == nullptr) continue;
    EXPECT_EQ(std::memcmp(landed->data(), matrix.bytes.data(), matrix.bytes.size()), 0);
  }
}

// Uploads that end, break, are dropped for others' sake or fail, side by side.
TEST_F(EarlyLandingTest, NoHistoryLosesMemory) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    LandingDevice first(12 * kMiB);
    LandingDevice second(20 * kMiB);
    {
      OperandStore store(Options({&first, &second}), &first, &clock_, 1);
      std::vector<std::thread> threads;
      for (std::uint32_t i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
          std::mt19937 random(seed * 4 + i);
          for (int round = 0; round < 4; ++round) {
            const StoredMatrix matrix(RandomBytes(4 * kMiB + random() % kMiB, random() % 5));
            auto stream = store.BeginUpload(Tenant(), matrix.digest, matrix.form, 0);
            if (!stream.ok()) continue;
            const std::uint64_t end = random() % 2 == 0 ? matrix.bytes.size() : 3 * kMiB;
            for (std::uint64_t at = 0; at < end; at += kMiB / 2) {
              const absl::string_view piece =
                  absl::string_view(matrix.bytes).substr(at, std::min(kMiB / 2, end - at));
              if (!(*stream)->Receive({PlaneName::kData, at, {&piece, 1}}).ok()) break;
            }
            if (random() % 3 == 0) store.MoveOutOf(random() % 2 == 0 ? &first : &second);
            const auto operand = store.Use(Tenant(), matrix.key(), "a");
            if (operand.ok()) {
              const absl::StatusOr<HostPiece> whole = (*operand)->Whole(PlaneName::kData);
              if (whole.ok()) {
                EXPECT_TRUE(std::string(whole->data, whole->size_bytes) == matrix.bytes);
              }
            }
            if (random() % 3 == 0) store.Release(Tenant(), matrix.key()).IgnoreError();
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    EXPECT_EQ(first.early_ends + second.early_ends, 0);
    EXPECT_EQ(first.memory().usage().resident_bytes, 0U);
    EXPECT_EQ(second.memory().usage().resident_bytes, 0U);
  }
}

}  // namespace
}  // namespace gemmd
