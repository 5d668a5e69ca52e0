// Watches for the ends of launches: a thread polls the event at the end of each one's commands and
// reports its end, so that no thread waits for one launch. It knows nothing of what a launch is
// made of.
//
// It also knows whether the device is lost (errors.h, or no progress for a time): then every
// launch in it and every later one ends with UNAVAILABLE, and on_lost is told once. Only a new
// process helps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/launches/prepared_work.h"
#include "server/device/device.h"

namespace gemmd {

// A launch whose commands were issued.
class WatchedLaunch {
 public:
  WatchedLaunch() = default;
  virtual ~WatchedLaunch() = default;
  WatchedLaunch(const WatchedLaunch&) = delete;
  WatchedLaunch& operator=(const WatchedLaunch&) = delete;

  // Called once, on any thread, without a lock; the launch is gone afterwards.
  virtual void End(DeviceResult result) = 0;

  IssuedWork issued;

 private:
  friend class CompletionWatcher;
  TimeNs issued_at_ = 0;
};

// Thread-safe.
class CompletionWatcher {
 public:
  struct Options {
    std::string device;  // its name, in the report of a loss
    std::int64_t stall_timeout_ms = 30000;
    // Called once, on any thread, before launches end for the loss.
    std::function<void(const absl::Status&)> on_lost = [](const absl::Status&) {};
  };

  // The clock outlives the watcher.
  CompletionWatcher(std::shared_ptr<CudaBackend> backend, Options options, const Clock* clock);
  // Tells all ends first. REQUIRES: nobody else uses the watcher any more.
  ~CompletionWatcher();
  CompletionWatcher(const CompletionWatcher&) = delete;
  CompletionWatcher& operator=(const CompletionWatcher&) = delete;

  // A launch with nothing under way ends here, with its status or the device's.
  void Watch(std::unique_ptr<WatchedLaunch> launch);

  // The status that every launch ends with once the device is lost; OK until then.
  absl::Status lost() const;
  // Returns the status as it is. If it says that the device is lost, this is remembered.
  absl::Status Noticed(absl::Status status);

  // OK once the event is done; UNAVAILABLE if the device is lost or stalls before.
  absl::Status WaitUntilDone(CudaEvent event);
  // Waits until fewer launches are under way than now, or the device is lost. False: none is.
  bool AwaitAnEnd();

  // Bytes copied by the launches that ended.
  CopiedBytes copied() const { return {copied_in_bytes_, copied_out_bytes_}; }

 private:
  using LaunchPtr = std::unique_ptr<WatchedLaunch>;

  void Lose(const absl::Status& status);
  void Complete();  // the thread
  // Takes out what is done; the error is the device's.
  absl::StatusOr<std::vector<LaunchPtr>> TakeDone(std::vector<LaunchPtr>* watched) const;
  // Tells the launches' ends, and that they are under way no more.
  void FinishAll(std::vector<LaunchPtr> launches, const absl::Status& failure, TimeNs now);
  void Finish(LaunchPtr launch, absl::Status status, TimeNs now);
  std::vector<StageSpan> SpansOf(const IssuedWork& issued, TimeNs now) const;
  absl::Status StalledSince(TimeNs since) const;

  const std::shared_ptr<CudaBackend> backend_;
  const Options options_;
  const Clock* const clock_;
  std::atomic<std::uint64_t> copied_in_bytes_ = 0;
  std::atomic<std::uint64_t> copied_out_bytes_ = 0;

  mutable Mutex mutex_;
  CondVar watch_;     // for the thread: there is something to watch, or it stops
  CondVar one_less_;  // is under way, or the device is lost
  std::vector<LaunchPtr> issued_ ABSL_GUARDED_BY(mutex_);  // the thread takes them
  std::size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;      // issued_ and what the thread has taken
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> is_lost_ = false;  // whether lost_ is an error: asked for every request

  std::thread thread_;  // last: it uses all else
};

}  // namespace gemmd
