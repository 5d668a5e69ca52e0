#include "server/device/cuda/launches/drain_ring.h"

#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/server/device/cuda/parts.h"

namespace gemmd {
namespace {

class DrainRingTest : public testing::CudaPartsTest {
 protected:
  static constexpr std::uint64_t kBytes = 8 << 20;

  // Memory of the device with random bytes in it.
  DrainRingTest() : bytes_(kBytes, '\0'), stream_(NewStream()) {
    std::mt19937_64 random(1);
    for (char& byte : bytes_) byte = static_cast<char>(random());
    device_ = static_cast<char*>(*cuda_->Allocate(kBytes, stream_, BlockLife::kLaunch));
    char* const pinned = static_cast<char*>(*cuda_->AllocatePinned(kBytes));
    std::memcpy(pinned, bytes_.data(), kBytes);
    EXPECT_TRUE(
        cuda_->Copy(CopyDirection::kToDevice, {device_, kBytes, pinned, kBytes, kBytes, 1}, stream_)
            .ok());
    const CudaEvent filled = *cuda_->CreateEvent();
    EXPECT_TRUE(cuda_->Record(filled, stream_).ok());
    EXPECT_TRUE(watcher_->WaitUntilDone(filled).ok());
    cuda_->FreePinned(pinned);
  }
  ~DrainRingTest() override { cuda_->Free(device_, stream_).IgnoreError(); }

  // All of the device's memory, to the string.
  CudaRect Whole(std::string* to) const { return {to->data(), kBytes, device_, kBytes, kBytes, 1}; }
  // Returns when what was copied has arrived.
  void Arrive() {
    std::promise<void> arrived;
    drains_->Then([&arrived] { arrived.set_value(); });
    arrived.get_future().wait();
  }

  std::string bytes_;
  const CudaStream stream_;
  char* device_ = nullptr;
};

// Lines longer than a slab and shorter, tight and with bytes between them, which stay.
TEST_F(DrainRingTest, RectanglesArriveAndNothingElseChanges) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 60; ++i) {
    CudaRect rect;
    rect.width = 1 + random() % (std::uint64_t{1} << (4 + random() % 18));
    rect.from_pitch = rect.width + (random() % 2) * (random() % 100);
    rect.to_pitch = rect.width + (random() % 2) * (random() % 100);
    rect.lines = 1 + random() % (kBytes / rect.from_pitch);
    rect.from = device_;
    std::string got(rect.lines * rect.to_pitch, 'x');
    std::string expected = got;
    for (std::uint64_t line = 0; line < rect.lines; ++line) {
      std::memcpy(expected.data() + line * rect.to_pitch, bytes_.data() + line * rect.from_pitch,
                  rect.width);
    }
    rect.to = got.data();
    ASSERT_TRUE(drains_->Copy(rect, stream_).ok());
    Arrive();
    ASSERT_TRUE(got == expected) << rect.lines << " lines of " << rect.width << " bytes, "
                                 << rect.from_pitch << " and " << rect.to_pitch << " apart";
  }
}

TEST_F(DrainRingTest, TasksWaitForTheBytesBeforeThemAndKeepTheirOrder) {
  std::string got(kBytes, '\0');
  std::vector<int> order;
  std::promise<void> last;
  EXPECT_FALSE(drains_->AwaitOne());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(drains_->Copy(Whole(&got), stream_).ok());
    drains_->Then([&, i] {
      EXPECT_TRUE(got == bytes_);
      got.assign(kBytes, '\0');
      order.push_back(i);
      if (i == 4) last.set_value();
    });
    while (drains_->AwaitOne()) {
    }
  }
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_FALSE(drains_->AwaitOne());
}

TEST_F(DrainRingTest, ItIsNotGoneBeforeItsTasksAre) {
  std::string got(kBytes, '\0');
  bool has_run = false;
  ASSERT_TRUE(drains_->Copy(Whole(&got), stream_).ok());
  drains_->Then([&] { has_run = got == bytes_; });
  drains_.reset();
  EXPECT_TRUE(has_run);
}

// More often than there are slabs, so that one that is lost for good would be missed.
TEST_F(DrainRingTest, ACopyThatFailsKeepsNoSlab) {
  std::string got(kBytes, '\0');
  for (const char* method : {"Copy", "Record"}) {
    for (int i = 0; i < 20; ++i) {
      cuda_->FailCall(method, absl::InternalError("a fault"), i % 4);
      EXPECT_EQ(drains_->Copy(Whole(&got), stream_).message(), "a fault");
    }
  }
  Arrive();
  got.assign(kBytes, '\0');
  ASSERT_TRUE(drains_->Copy(Whole(&got), stream_).ok());
  Arrive();
  EXPECT_TRUE(got == bytes_);
}

TEST_F(DrainRingTest, WithoutADeviceTasksRunAndNothingArrives) {
  std::string got(2 << 20, 'x');
  cuda_->Stall();
  ASSERT_TRUE(
      drains_->Copy({got.data(), got.size(), device_, got.size(), got.size(), 1}, stream_).ok());
  watcher_->Noticed(absl::UnavailableError("gone")).IgnoreError();
  Arrive();
  EXPECT_EQ(got, std::string(2 << 20, 'x'));
}

}  // namespace
}  // namespace gemmd
