// The policy in force, which changes when its file does.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/auth/policy.h"

namespace gemmd {

// Thread-safe.
class PolicyFile {
 public:
  // Reads the file and those that it names, and again every `period`; zero: only when told. An
  // empty path: the policy is Policy::Open() for good. INVALID_ARGUMENT names the option, the path
  // and what is wrong.
  static absl::StatusOr<std::unique_ptr<PolicyFile>> Open(const std::string& path,
                                                          std::chrono::milliseconds period);
  ~PolicyFile();
  PolicyFile(const PolicyFile&) = delete;
  PolicyFile& operator=(const PolicyFile&) = delete;

  std::shared_ptr<const Policy> policy() const;

  // Reads the files if one has changed. One that cannot be read, or is no policy, changes nothing,
  // and the log says so once: a slip of an editor locks nobody out, and lets nobody in.
  void Reload();

  // Writes a line for each token that has ended.
  void LogExpiredTokens() const;

 private:
  explicit PolicyFile(std::string path) : path_(std::move(path)) {}

  // OK where what it gives is what it gave before, were that an error.
  absl::Status ReadIfChanged();
  void Watch(std::chrono::milliseconds period);

  const std::string path_;
  mutable AdaptiveMutex policy_mutex_;
  std::shared_ptr<const Policy> policy_ ABSL_GUARDED_BY(policy_mutex_);
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Mutex reading_;  // one at a time
  // The file and those that it names, by their paths.
  std::map<std::string, absl::StatusOr<std::string>> last_read_ ABSL_GUARDED_BY(reading_);
  std::thread watcher_;  // last: it uses all else
};

}  // namespace gemmd
