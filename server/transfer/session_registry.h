// Every session of the server: found by its token, and watched for what is late.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/transfer/matmul_session.h"

namespace gemmd {

// Thread-safe. Holds no session: a session lives as long as its streams and jobs.
class SessionRegistry {
 public:
  // Looks for what is late every `period`, on a thread of its own; zero: only when told.
  SessionRegistry(const Clock* clock, std::chrono::milliseconds period);
  ~SessionRegistry();
  SessionRegistry(const SessionRegistry&) = delete;
  SessionRegistry& operator=(const SessionRegistry&) = delete;

  // Watches the session. One that comes while the server drains starts to drain at once.
  void Add(const std::shared_ptr<MatmulSession>& session);
  // Makes it joinable by the tenant, which Tenant::key() names: the token is 16 random bytes.
  std::string Open(const std::shared_ptr<MatmulSession>& session, const std::string& tenant);
  // NOT_FOUND: no session of the tenant that lives has this token.
  absl::StatusOr<std::shared_ptr<MatmulSession>> Find(const std::string& token,
                                                      const std::string& tenant) const;

  void EndLate();
  void StartDraining();

 private:
  struct Joinable {
    std::weak_ptr<MatmulSession> session;
    std::string tenant;
  };

  std::vector<std::shared_ptr<MatmulSession>> Sessions();
  void Watch(std::chrono::milliseconds period);

  const Clock* const clock_;
  mutable Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<MatmulSession>> sessions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Joinable> by_token_ ABSL_GUARDED_BY(mutex_);
  std::thread watcher_;  // last: it uses all else
};

}  // namespace gemmd
