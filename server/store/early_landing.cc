#include "server/store/early_landing.h"

#include <algorithm>
#include <utility>

namespace gemmd {

Device* RoomiestOf(const std::vector<Device*>& devices) {
  const auto free_bytes = [](Device* device) { return device->memory().usage().free_bytes(); };
  const auto found = std::max_element(devices.begin(), devices.end(), [&](Device* x, Device* y) {
    return free_bytes(x) < free_bytes(y);
  });
  return found == devices.end() ? nullptr : *found;
}

EarlyLanding::EarlyLanding(std::vector<Device*> devices, const Problem& problem, WorkPlane plane,
                           HostPiece data, std::uint64_t batch_bytes, KeyedPool* thread)
    : devices_(std::move(devices)),
      problem_(problem),
      plane_(plane),
      data_(std::move(data)),
      batch_bytes_(batch_bytes),
      thread_(thread) {}

void EarlyLanding::Add(ByteRange bytes) {
  {
    const MutexLock lock(mutex_);
    if (is_over_) return;
    waiting_bytes_ += bytes.end - bytes.begin;
    if (!waiting_.empty() && waiting_.back().end == bytes.begin) {
      waiting_.back().end = bytes.end;
    } else {
      waiting_.push_back(bytes);
    }
    if (is_posted_ || waiting_bytes_ < batch_bytes_) return;
    is_posted_ = true;
  }
  // Batches of one upload go one after another, beside those of others.
  thread_->Post(reinterpret_cast<std::uintptr_t>(this),
                [self = shared_from_this()] { self->BringWaiting(); });
}

std::optional<std::vector<ByteRange>> EarlyLanding::TakeWaiting() {
  std::vector<ByteRange> taken;
  {
    const MutexLock lock(mutex_);
    is_posted_ = false;
    if (is_over_) return std::nullopt;
    taken = std::exchange(waiting_, {});
    waiting_bytes_ = 0;
  }
  std::sort(taken.begin(), taken.end(),
            [](const ByteRange& x, const ByteRange& y) { return x.begin < y.begin; });
  std::vector<ByteRange> merged;
  for (const ByteRange& each : taken) {
    if (!merged.empty() && merged.back().end == each.begin) {
      merged.back().end = each.end;
    } else {
      merged.push_back(each);
    }
  }
  return merged;
}

void EarlyLanding::BringWaiting() {
  const MutexLock bringing(bringing_);
  const std::optional<std::vector<ByteRange>> ranges = TakeWaiting();
  if (!ranges.has_value()) return;
  if (arrival_ == nullptr) BeginWhileBringing();
  if (arrival_ != nullptr && Bring(*ranges, arrival_.get()).ok()) return;
  if (is_over()) return;  // whoever gives it up waits for the memory
  SetOver();
  arrival_ = nullptr;
}

void EarlyLanding::BeginWhileBringing() {
  Device* const device = RoomiestOf(devices_);
  if (device == nullptr) return;
  absl::StatusOr<std::unique_ptr<ArrivingOperand>> begun = device->BeginStore(problem_, plane_);
  if (!begun.ok()) return;
  arrival_ = *std::move(begun);
  const MutexLock lock(mutex_);
  device_ = device;
}

absl::Status EarlyLanding::Bring(const std::vector<ByteRange>& ranges, ArrivingOperand* arrival) {
  // No more at a time, so that other planes land in between.
  for (const ByteRange& each : ranges) {
    for (std::uint64_t at = each.begin; at < each.end; at += batch_bytes_) {
      if (is_over()) return absl::CancelledError("given up");
      const std::uint64_t end = std::min(each.end, at + batch_bytes_);
      if (absl::Status s = arrival->Bring(data_.data, at, end); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<const ResidentOperand> EarlyLanding::Finish() {
  const MutexLock bringing(bringing_);
  const std::optional<std::vector<ByteRange>> rest = TakeWaiting();
  const std::unique_ptr<ArrivingOperand> arrival = std::exchange(arrival_, nullptr);
  // Somebody may be giving it up.
  const bool is_whole = rest.has_value() && arrival != nullptr && Bring(*rest, arrival.get()).ok();
  SetOver();
  if (!is_whole) return nullptr;
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> landed = arrival->Finish();
  return landed.ok() ? *std::move(landed) : nullptr;
}

Device* EarlyLanding::device() {
  const MutexLock lock(mutex_);
  return device_;
}

std::uint64_t EarlyLanding::Drop() {
  SetOver();  // whoever brings ends soon
  const MutexLock bringing(bringing_);
  if (arrival_ == nullptr) return 0;
  arrival_ = nullptr;
  return data_.size_bytes;
}

bool EarlyLanding::is_over() {
  const MutexLock lock(mutex_);
  return is_over_;
}

void EarlyLanding::SetOver() {
  const MutexLock lock(mutex_);
  is_over_ = true;
  waiting_.clear();
}

}  // namespace gemmd
