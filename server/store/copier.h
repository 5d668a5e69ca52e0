// Copies operands to other devices beside the requests, none of which waits for it.
#pragma once

#include <thread>

#include "absl/functional/any_invocable.h"
#include "base/sync/mutex.h"

namespace gemmd {

// One thread, which makes one copy at a time: nothing waits here, and what is still wanted when it
// is free is asked for again. Thread-safe.
class Copier {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  Copier() : thread_([this] { Run(); }) {}
  // Carries out what it took.
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // False: it is busy, and the task is dropped.
  bool Take(Task task);
  void WaitUntilIdle();

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  Task task_ ABSL_GUARDED_BY(mutex_);  // null: none waits
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all else
};

}  // namespace gemmd
