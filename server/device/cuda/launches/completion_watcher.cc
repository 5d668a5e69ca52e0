#include "server/device/cuda/launches/completion_watcher.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "server/device/cuda/backend/errors.h"

namespace gemmd {
namespace {

// After this long without progress the completion thread sleeps between looks.
constexpr TimeNs kSpinNs = 2000000;
constexpr std::chrono::microseconds kNap(20);
// So often it looks for the next launch before it sleeps, some 200 us: waking a thread costs
// whoever submits more than issuing does.
constexpr int kIdleLooks = 400;

}  // namespace

CompletionWatcher::CompletionWatcher(std::shared_ptr<CudaBackend> backend, Options options,
                                     const Clock* clock)
    : backend_(std::move(backend)),
      options_(std::move(options)),
      clock_(clock),
      thread_([this] { Complete(); }) {}

CompletionWatcher::~CompletionWatcher() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  watch_.notify_all();
  thread_.join();
}

void CompletionWatcher::Watch(LaunchPtr launch) {
  const TimeNs now = clock_->Now();
  launch->issued_at_ = now;
  absl::Status status = lost();
  if (status.ok() && IsDeviceLost(launch->issued.status)) {
    Lose(launch->issued.status);
    status = lost();
  }
  if (!status.ok() || launch->issued.last == nullptr) {
    if (status.ok()) status = launch->issued.status;
    Finish(std::move(launch), std::move(status), now);
    return;
  }
  {
    const MutexLock lock(mutex_);
    issued_.push_back(std::move(launch));
    ++under_way_;
  }
  watch_.notify_one();
}

void CompletionWatcher::Complete() {
  std::vector<LaunchPtr> watched;
  TimeNs last_progress = 0;
  RelockableMutexLock lock(mutex_);
  while (true) {
    if (watched.empty()) {
      for (int look = 0; look < kIdleLooks && !stops_ && issued_.empty(); ++look) {
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
      }
      while (!stops_ && issued_.empty()) watch_.wait(mutex_);
      if (issued_.empty()) return;
      last_progress = issued_.front()->issued_at_;
    }
    std::move(issued_.begin(), issued_.end(), std::back_inserter(watched));
    issued_.clear();
    // Threads that submit want the lock meanwhile, and the driver's, too.
    lock.unlock();
    absl::StatusOr<std::vector<LaunchPtr>> done = TakeDone(&watched);
    const TimeNs now = clock_->Now();
    if (done.ok() && !done->empty()) last_progress = now;
    absl::Status failure = done.ok() ? StalledSince(last_progress) : done.status();
    if (!failure.ok()) Lose(failure);
    if (failure = lost(); !failure.ok()) {
      if (done.ok()) std::move(done->begin(), done->end(), std::back_inserter(watched));
      FinishAll(std::exchange(watched, {}), failure, now);
    } else if (done->empty()) {
      std::this_thread::yield();
    } else {
      FinishAll(*std::move(done), absl::OkStatus(), now);
    }
    lock.lock();
    // Looking costs the device nothing and its results are wanted soon; a long kernel is
    // worth a sleep.
    if (now - last_progress > kSpinNs && !watched.empty()) watch_.wait_for(mutex_, kNap);
  }
}

absl::StatusOr<std::vector<CompletionWatcher::LaunchPtr>> CompletionWatcher::TakeDone(
    std::vector<LaunchPtr>* watched) const {
  std::vector<LaunchPtr> done;
  for (auto position = watched->begin(); position != watched->end();) {
    const absl::StatusOr<bool> is_done = backend_->IsDone((*position)->issued.last);
    if (!is_done.ok()) {
      // Launches found done a moment ago end with the rest: their data may be wrong too.
      std::move(done.begin(), done.end(), std::back_inserter(*watched));
      return is_done.status();
    }
    if (*is_done) {
      done.push_back(std::move(*position));
      position = watched->erase(position);
    } else {
      ++position;
    }
  }
  return done;
}

void CompletionWatcher::FinishAll(std::vector<LaunchPtr> launches, const absl::Status& failure,
                                  TimeNs now) {
  {
    const MutexLock lock(mutex_);
    under_way_ -= launches.size();
  }
  one_less_.notify_all();
  for (LaunchPtr& launch : launches) {
    absl::Status status = failure.ok() ? launch->issued.status : failure;
    Finish(std::move(launch), std::move(status), now);
  }
}

void CompletionWatcher::Finish(LaunchPtr launch, absl::Status status, TimeNs now) {
  DeviceResult result;
  if (status.ok()) result.spans = SpansOf(launch->issued, now);
  result.status = std::move(status);
  result.copied = launch->issued.copied;
  copied_in_bytes_ += result.copied.in;
  copied_out_bytes_ += result.copied.out;
  launch->End(std::move(result));
}

std::vector<StageSpan> CompletionWatcher::SpansOf(const IssuedWork& issued, TimeNs now) const {
  // The device's clock tells how long before the last mark each stage was; the host's tells
  // when that mark was seen.
  std::vector<StageSpan> spans;
  for (const TimedStage& stage : issued.stages) {
    const absl::StatusOr<std::int64_t> length = backend_->ElapsedNs(stage.begin, stage.end);
    const absl::StatusOr<std::int64_t> to_last = backend_->ElapsedNs(stage.end, issued.last);
    if (!length.ok() || !to_last.ok()) continue;
    const TimeNs end = now - *to_last;
    spans.push_back({stage.stage, end - *length, end});
  }
  return spans;
}

absl::Status CompletionWatcher::lost() const {
  if (!is_lost_) return absl::OkStatus();
  const MutexLock lock(mutex_);
  return lost_;
}

absl::Status CompletionWatcher::Noticed(absl::Status status) {
  if (IsDeviceLost(status)) Lose(status);
  return status;
}

void CompletionWatcher::Lose(const absl::Status& status) {
  std::vector<LaunchPtr> launches;
  absl::Status lost;
  {
    const MutexLock lock(mutex_);
    if (!lost_.ok()) return;
    lost_ = lost = absl::UnavailableError(
        absl::StrCat("device ", options_.device, " is lost: ", status.message()));
    is_lost_ = true;
    launches.swap(issued_);
  }
  options_.on_lost(lost);
  FinishAll(std::move(launches), lost, clock_->Now());
}

absl::Status CompletionWatcher::StalledSince(TimeNs since) const {
  if (clock_->Now() - since <= options_.stall_timeout_ms * kMillisecond) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no work ended for ", options_.stall_timeout_ms, " ms"));
}

absl::Status CompletionWatcher::WaitUntilDone(CudaEvent event) {
  const TimeNs start = clock_->Now();
  while (true) {
    if (absl::Status status = lost(); !status.ok()) return status;
    const absl::StatusOr<bool> is_done = backend_->IsDone(event);
    if (!is_done.ok()) return is_done.status();
    if (*is_done) return absl::OkStatus();
    if (clock_->Now() - start > kSpinNs) std::this_thread::sleep_for(kNap);
    if (absl::Status status = StalledSince(start); !status.ok()) {
      Lose(status);
      return status;
    }
    std::this_thread::yield();
  }
}

bool CompletionWatcher::AwaitAnEnd() {
  const MutexLock lock(mutex_);
  const std::size_t under_way = under_way_;
  if (under_way == 0) return false;
  while (under_way_ >= under_way && lost_.ok()) one_less_.wait(mutex_);
  return true;
}

}  // namespace gemmd
