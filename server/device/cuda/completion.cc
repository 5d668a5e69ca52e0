// How launches end, and what happens when the device is lost.
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/errors.h"

namespace gemmd {
namespace {

// After this long without progress the completion thread sleeps between looks.
constexpr TimeNs kSpinNs = 2000000;
constexpr std::chrono::microseconds kNap(20);
// So often it looks for the next launch before it sleeps, some 200 us: waking a thread costs
// whoever submits more than issuing does.
constexpr int kIdleLooks = 400;

}  // namespace

void CudaDevice::Watch(ItemPtr item) {
  const TimeNs now = clock_->Now();
  item->issued_at = now;
  absl::Status status = lost();
  if (status.ok() && IsDeviceLost(item->issued.status)) {
    Lose(item->issued.status);
    status = lost();
  }
  if (!status.ok() || item->issued.last == nullptr) {
    if (status.ok()) status = item->issued.status;
    Finish(std::move(item), std::move(status), now);
    return;
  }
  {
    const MutexLock lock(mutex_);
    issued_.push_back(std::move(item));
    ++under_way_;
  }
  watch_.notify_one();
}

void CudaDevice::Complete() {
  std::vector<ItemPtr> watched;
  TimeNs last_progress = 0;
  RelockableMutexLock lock(mutex_);
  while (true) {
    if (watched.empty()) {
      for (int look = 0; look < kIdleLooks && !completion_stops_ && issued_.empty(); ++look) {
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
      }
      while (!completion_stops_ && issued_.empty()) watch_.wait(mutex_);
      if (issued_.empty()) return;
      last_progress = issued_.front()->issued_at;
    }
    std::move(issued_.begin(), issued_.end(), std::back_inserter(watched));
    issued_.clear();
    // Whoever submits wants the lock meanwhile, and the driver's, too.
    lock.unlock();
    absl::StatusOr<std::vector<ItemPtr>> done = TakeDone(&watched);
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

absl::StatusOr<std::vector<CudaDevice::ItemPtr>> CudaDevice::TakeDone(
    std::vector<ItemPtr>* watched) const {
  std::vector<ItemPtr> done;
  for (auto position = watched->begin(); position != watched->end();) {
    const absl::StatusOr<bool> is_done = backend_->IsDone((*position)->issued.last);
    if (!is_done.ok()) {
      // What was done a moment ago is told with the rest: its data may be wrong too.
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

void CudaDevice::FinishAll(std::vector<ItemPtr> items, const absl::Status& failure, TimeNs now) {
  {
    const MutexLock lock(mutex_);
    under_way_ -= items.size();
  }
  for (ItemPtr& item : items) {
    absl::Status status = failure.ok() ? item->issued.status : failure;
    Finish(std::move(item), std::move(status), now);
  }
}

void CudaDevice::Finish(ItemPtr item, absl::Status status, TimeNs now) {
  DeviceResult result;
  if (status.ok()) result.spans = SpansOf(*item, now);
  result.status = std::move(status);
  result.copied = item->issued.copied;
  CountCopied(result.copied);
  // The slot is free before the callback, which may submit the next work.
  if (item->slot != nullptr) {
    item->slot->Reset();
    const MutexLock lock(mutex_);
    free_slots_.push_back(std::move(item->slot));
  }
  slot_is_free_.notify_all();
  // What it holds is free before its end is told.
  item->launch.works.clear();
  item->launch.sliced = nullptr;
  item->reservation.Release();
  std::move(item->done)(std::move(result));
}

std::vector<StageSpan> CudaDevice::SpansOf(const Item& item, TimeNs now) const {
  // The device's clock tells how long before the last mark each stage was; the host's tells
  // when that mark was seen.
  std::vector<StageSpan> spans;
  for (const TimedStage& stage : item.issued.stages) {
    const absl::StatusOr<std::int64_t> length = backend_->ElapsedNs(stage.begin, stage.end);
    const absl::StatusOr<std::int64_t> to_last = backend_->ElapsedNs(stage.end, item.issued.last);
    if (!length.ok() || !to_last.ok()) continue;
    const TimeNs end = now - *to_last;
    spans.push_back({stage.stage, end - *length, end});
  }
  return spans;
}

absl::Status CudaDevice::lost() const {
  if (!is_lost_) return absl::OkStatus();
  const MutexLock lock(mutex_);
  return lost_;
}

void CudaDevice::Lose(const absl::Status& status) {
  std::vector<ItemPtr> items;
  absl::Status lost;
  {
    const MutexLock lock(mutex_);
    if (!lost_.ok()) return;
    lost_ = lost = absl::UnavailableError(
        absl::StrCat("device ", traits_.name, " is lost: ", status.message()));
    is_lost_ = true;
    items.swap(issued_);
  }
  options_.on_lost(lost);
  FinishAll(std::move(items), lost, clock_->Now());
  slot_is_free_.notify_all();
}

absl::Status CudaDevice::StalledSince(TimeNs since) const {
  constexpr TimeNs kMillisecond = 1000000;
  if (clock_->Now() - since <= options_.stall_timeout_ms * kMillisecond) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no work ended for ", options_.stall_timeout_ms, " ms"));
}

absl::Status CudaDevice::WaitUntilDone(CudaEvent event) {
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

}  // namespace gemmd
