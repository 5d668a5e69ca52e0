// The calls of one gemmd_client, so that freeing it can cancel products and wait.
#pragma once

#include <memory>
#include <set>

#include "absl/status/status.h"
#include "base/sync/mutex.h"
#include "client/pending_matmul.h"

namespace gemmd::client::c {

// One call that can be cancelled from before it begins. Thread-safe.
class Flight {
 public:
  // The product that was begun; cancels it where that was asked for before.
  void Set(std::shared_ptr<PendingMatmul> pending);
  void Cancel();

 private:
  Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<PendingMatmul> pending_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe.
class CallsUnderWay {
 public:
  // CANCELLED once CancelAll() was called; else End() must follow.
  absl::Status Begin(const std::shared_ptr<Flight>& flight);
  void End(const std::shared_ptr<Flight>& flight);
  // Cancels those that are under way, and lets no other begin.
  void CancelAll();
  void WaitForNone();

 private:
  Mutex mutex_;
  CondVar none_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::client::c
