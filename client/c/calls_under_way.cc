#include "client/c/calls_under_way.h"

#include <utility>

namespace gemmd::client::c {

void Flight::Set(std::shared_ptr<PendingMatmul> pending) {
  {
    const MutexLock lock(mutex_);
    if (!is_cancelled_) {
      pending_ = std::move(pending);
      return;
    }
  }
  pending->Cancel();
}

void Flight::Cancel() {
  std::shared_ptr<PendingMatmul> pending;
  {
    const MutexLock lock(mutex_);
    is_cancelled_ = true;
    pending = pending_;
  }
  if (pending != nullptr) pending->Cancel();
}

absl::Status CallsUnderWay::Begin(const std::shared_ptr<Flight>& flight) {
  const MutexLock lock(mutex_);
  if (is_closed_) return absl::CancelledError("the client is being freed");
  flights_.insert(flight);
  return absl::OkStatus();
}

void CallsUnderWay::End(const std::shared_ptr<Flight>& flight) {
  const MutexLock lock(mutex_);
  flights_.erase(flight);
  if (flights_.empty()) none_.notify_all();
}

void CallsUnderWay::CancelAll() {
  std::set<std::shared_ptr<Flight>> flights;
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    flights = flights_;
  }
  // Unlocked, because a product that ends by it calls End().
  for (const std::shared_ptr<Flight>& each : flights) each->Cancel();
}

void CallsUnderWay::WaitForNone() {
  const MutexLock lock(mutex_);
  while (!flights_.empty()) none_.wait(mutex_);
}

}  // namespace gemmd::client::c
