#include "server/device/cuda/launches/completion_watcher.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "tests/server/device/cuda/parts.h"

namespace gemmd {
namespace {

class TestLaunch final : public WatchedLaunch {
 public:
  // `losses`: how many were told so far.
  explicit TestLaunch(const std::atomic<int>* losses) : losses_(losses) {}
  void End(DeviceResult result) override {
    // A launch that ends for a loss was told of it before.
    EXPECT_EQ(*losses_ != 0, absl::IsUnavailable(result.status));
    ended_.set_value(std::move(result));
  }
  std::future<DeviceResult> ended() { return ended_.get_future(); }

 private:
  const std::atomic<int>* const losses_;
  std::promise<DeviceResult> ended_;
};

class CompletionWatcherTest : public testing::CudaPartsTest {
 protected:
  // A launch of one stage, whose commands are issued.
  std::unique_ptr<TestLaunch> NewLaunch() {
    const CudaStream stream = NewStream();
    auto launch = std::make_unique<TestLaunch>(&losses_);
    const CudaEvent begin = *cuda_->CreateEvent();
    const CudaEvent end = *cuda_->CreateEvent();
    EXPECT_TRUE(cuda_->Record(begin, stream).ok());
    EXPECT_TRUE(cuda_->Record(end, stream).ok());
    launch->issued.stages = {{Stage::kCompute, begin, end}};
    launch->issued.last = end;
    launch->issued.copied = {3, 5};
    return launch;
  }
  std::future<DeviceResult> Watch(std::unique_ptr<TestLaunch> launch) {
    std::future<DeviceResult> ended = launch->ended();
    watcher_->Watch(std::move(launch));
    return ended;
  }
  static bool HasEnded(const std::future<DeviceResult>& ended) {
    return ended.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
};

TEST_F(CompletionWatcherTest, TellsAnEndOnceTheMarkIsDone) {
  cuda_->Hold();
  std::future<DeviceResult> ended = Watch(NewLaunch());
  EXPECT_FALSE(HasEnded(ended));
  cuda_->Release();
  const DeviceResult result = ended.get();
  EXPECT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.spans.size(), 1U);
  EXPECT_EQ(result.spans[0].stage, Stage::kCompute);
  EXPECT_LE(result.spans[0].end, clock_.Now());
  EXPECT_EQ(result.copied.in, 3U);
  EXPECT_EQ(watcher_->copied().in, 3U);
  EXPECT_EQ(watcher_->copied().out, 5U);
}

TEST_F(CompletionWatcherTest, WithNothingUnderWayALaunchEndsAtOnce) {
  auto launch = std::make_unique<TestLaunch>(&losses_);
  launch->issued.status = absl::ResourceExhaustedError("no room");
  std::future<DeviceResult> ended = Watch(std::move(launch));
  ASSERT_TRUE(HasEnded(ended));
  EXPECT_TRUE(absl::IsResourceExhausted(ended.get().status));
  EXPECT_TRUE(watcher_->lost().ok());
}

// The error of commands that could not be issued is the launch's end, though commands before them
// are under way.
TEST_F(CompletionWatcherTest, ALaunchEndsWithItsOwnStatus) {
  std::unique_ptr<TestLaunch> launch = NewLaunch();
  launch->issued.status = absl::InternalError("too many resources");
  EXPECT_EQ(Watch(std::move(launch)).get().status.message(), "too many resources");
  EXPECT_EQ(losses_, 0);
}

TEST_F(CompletionWatcherTest, ALossEndsAllAndIsToldFirstAndOnce) {
  cuda_->Hold();
  std::future<DeviceResult> first = Watch(NewLaunch());
  std::future<DeviceResult> second = Watch(NewLaunch());
  cuda_->LoseDevice(absl::UnavailableError("cudaErrorIllegalAddress"));
  cuda_->Release();
  for (std::future<DeviceResult>* ended : {&first, &second}) {
    EXPECT_EQ(ended->get().status.message(), "device cuda:0 is lost: cudaErrorIllegalAddress");
  }
  std::future<DeviceResult> later = Watch(std::make_unique<TestLaunch>(&losses_));
  ASSERT_TRUE(HasEnded(later));
  EXPECT_TRUE(absl::IsUnavailable(later.get().status));
  EXPECT_TRUE(absl::IsUnavailable(watcher_->lost()));
  EXPECT_EQ(losses_, 1);
}

TEST_F(CompletionWatcherTest, ALaunchWhoseIssueLostTheDeviceTellsTheLoss) {
  auto launch = std::make_unique<TestLaunch>(&losses_);
  launch->issued.status = absl::UnavailableError("gone");
  EXPECT_EQ(Watch(std::move(launch)).get().status.message(), "device cuda:0 is lost: gone");
  EXPECT_EQ(lost_, "device cuda:0 is lost: gone");
}

TEST_F(CompletionWatcherTest, OnlyWhatMeansALossIsNoticedAsOne) {
  EXPECT_TRUE(absl::IsInternal(watcher_->Noticed(absl::InternalError("a launch failed"))));
  EXPECT_TRUE(watcher_->lost().ok());
  EXPECT_TRUE(absl::IsUnavailable(watcher_->Noticed(absl::UnavailableError("gone"))));
  EXPECT_TRUE(absl::IsUnavailable(watcher_->lost()));
}

TEST_F(CompletionWatcherTest, AStallIsALoss) {
  cuda_->Hold();
  std::future<DeviceResult> ended = Watch(NewLaunch());
  clock_.Advance(1000000001);
  EXPECT_EQ(ended.get().status.message(), "device cuda:0 is lost: no work ended for 1000 ms");
}

// Goes on by a millisecond whenever somebody looks.
class TickingClock final : public Clock {
 public:
  TimeNs Now() const override { return now_ += 1000000; }

 private:
  mutable std::atomic<TimeNs> now_ = 0;
};

TEST_F(CompletionWatcherTest, WaitsForAnEventUntilTheDeviceStalls) {
  const TickingClock clock;
  CompletionWatcher::Options options;
  options.device = "cuda:0";
  options.stall_timeout_ms = 1000;
  CompletionWatcher watcher(cuda_, options, &clock);
  const CudaEvent event = *cuda_->CreateEvent();
  ASSERT_TRUE(cuda_->Record(event, NewStream()).ok());
  EXPECT_TRUE(watcher.WaitUntilDone(event).ok());
  cuda_->Hold();
  EXPECT_TRUE(absl::IsUnavailable(watcher.WaitUntilDone(event)));
  EXPECT_TRUE(absl::IsUnavailable(watcher.lost()));
}

TEST_F(CompletionWatcherTest, EveryEndWakesWhoAwaitsOne) {
  EXPECT_FALSE(watcher_->AwaitAnEnd());
  cuda_->Hold();
  std::future<DeviceResult> first = Watch(NewLaunch());
  std::future<DeviceResult> second = Watch(NewLaunch());
  std::thread waiter([this] {
    while (watcher_->AwaitAnEnd()) {
    }
  });
  cuda_->Release();
  waiter.join();
  EXPECT_TRUE(first.get().status.ok());
  EXPECT_TRUE(second.get().status.ok());
}

TEST_F(CompletionWatcherTest, TellsAllEndsBeforeItIsGone) {
  cuda_->Hold();
  std::future<DeviceResult> first = Watch(NewLaunch());
  std::future<DeviceResult> second = Watch(NewLaunch());
  std::thread release([this] { cuda_->Release(); });
  watcher_.reset();
  release.join();
  EXPECT_TRUE(HasEnded(first));
  EXPECT_TRUE(HasEnded(second));
}

}  // namespace
}  // namespace gemmd
