// Quantizes uploads beside the calls: each takes seconds, which no thread of gRPC has.
#pragma once

#include <thread>

#include "absl/functional/any_invocable.h"
#include "base/sync/mutex.h"
#include "server/tenants/fair_queue.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// One thread, and those that Convert() begins. Tenants take turns by bytes, so that one that
// uploads much keeps nobody waiting for longer than the upload that is being quantized. Its memory
// is counted where it was reserved, which bounds what waits here. Thread-safe.
class Converter {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  Converter() : thread_([this] { Run(); }) {}
  // Carries out what was posted.
  ~Converter();
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  void Post(const Tenant& tenant, std::uint64_t bytes, Task task);

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  FairQueue<Task> waiting_ ABSL_GUARDED_BY(mutex_);  // by tenant
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all else
};

}  // namespace gemmd
