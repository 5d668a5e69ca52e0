// How launches end, and what happens when the device is lost.
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/cuda/errors.h"

namespace gemmd {
namespace {

// After this long without progress the completion thread sleeps between looks.
constexpr TimeNs kSpinNs = 2000000;
constexpr std::chrono::microseconds kNap(20);
// So long after the last launch ended it still looks for the next one: waking a thread costs
// whoever submits more than issuing does.
constexpr TimeNs kAwakeNs = 200000;

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
    const std::lock_guard<std::mutex> lock(mutex_);
    if (watched_.empty()) last_progress_ = now;
    watched_.push_back(std::move(item));
  }
  watch_.notify_one();
}

void CudaDevice::Complete() {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_wanted = [this] { return completion_stops_ || !watched_.empty(); };
  while (true) {
    const TimeNs idle_since = clock_->Now();
    while (!is_wanted() && clock_->Now() - idle_since < kAwakeNs) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    watch_.wait(lock, is_wanted);
    if (watched_.empty()) return;
    absl::StatusOr<std::vector<ItemPtr>> done = TakeDoneLocked();
    const TimeNs now = clock_->Now();
    if (done.ok() && !done->empty()) last_progress_ = now;
    const TimeNs last_progress = last_progress_;
    absl::Status failure = done.ok() ? StalledSince(last_progress) : done.status();
    lock.unlock();
    if (!failure.ok()) {
      Lose(failure);
    } else {
      for (ItemPtr& item : *done) {
        absl::Status status = item->issued.status;
        Finish(std::move(item), std::move(status), now);
      }
    }
    lock.lock();
    // Looking costs the device nothing and its results are wanted soon; a long kernel is
    // worth a sleep.
    if (now - last_progress > kSpinNs && !watched_.empty()) watch_.wait_for(lock, kNap);
  }
}

absl::StatusOr<std::vector<CudaDevice::ItemPtr>> CudaDevice::TakeDoneLocked() {
  std::vector<ItemPtr> done;
  for (auto position = watched_.begin(); position != watched_.end();) {
    const absl::StatusOr<bool> is_done = backend_->IsDone((*position)->issued.last);
    if (!is_done.ok()) {
      // What was done a moment ago is told with the rest: its data may be wrong too.
      for (ItemPtr& item : done) watched_.push_back(std::move(item));
      return is_done.status();
    }
    if (*is_done) {
      done.push_back(std::move(*position));
      position = watched_.erase(position);
    } else {
      ++position;
    }
  }
  return done;
}

void CudaDevice::Finish(ItemPtr item, absl::Status status, TimeNs now) {
  DeviceResult result;
  if (status.ok()) result.spans = SpansOf(*item, now);
  result.status = std::move(status);
  // The slot is free before the callback, which may submit the next work.
  if (item->slot != nullptr) {
    item->slot->Reset();
    const std::lock_guard<std::mutex> lock(mutex_);
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
  const std::lock_guard<std::mutex> lock(mutex_);
  return lost_;
}

void CudaDevice::Lose(const absl::Status& status) {
  std::vector<ItemPtr> items;
  absl::Status lost;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!lost_.ok()) return;
    lost_ = lost = absl::UnavailableError(
        absl::StrCat("device ", traits_.name, " is lost: ", status.message()));
    items.swap(watched_);
  }
  options_.on_lost(lost);
  const TimeNs now = clock_->Now();
  for (ItemPtr& item : items) Finish(std::move(item), lost, now);
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
    if (absl::Status status = StalledSince(start); !status.ok()) {
      Lose(status);
      return status;
    }
    std::this_thread::yield();
  }
}

}  // namespace gemmd
