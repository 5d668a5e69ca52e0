// Brings back operands that a server has lost, for products that wait for them: private to
// client.cc.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/sync/mutex.h"
#include "client/calls/operand_link.h"

namespace gemmd::client {

// Uploads on a thread of its own, one after another, because an upload waits and a product's
// callbacks must not. An operand that several products miss is sent once: the later ones find it
// there. The thread begins with the first upload. Thread-safe.
class Refiller {
 public:
  explicit Refiller(OperandLink link) : link_(std::move(link)) {}
  // REQUIRES: `done` has run for all that was asked for.
  ~Refiller();
  Refiller(const Refiller&) = delete;
  Refiller& operator=(const Refiller&) = delete;

  // Uploads them; `done` runs on the thread, with the first error, if any. RESOURCE_EXHAUSTED, on
  // the caller's: the system gives this process no thread.
  using Done = std::function<void(const absl::Status&)>;
  void Bring(std::vector<OperandSource> lost, absl::Time deadline, Done done);

 private:
  struct Task {
    std::vector<OperandSource> lost;
    absl::Time deadline;
    Done done;
  };

  // Adds the task, or returns false where there is no thread for it.
  bool Begin(Task* task);
  void Run();
  absl::Status PutAll(const Task& task) const;

  const OperandLink link_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::client
