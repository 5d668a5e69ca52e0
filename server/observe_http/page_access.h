// Decides whether a page is shown, by the caller and the roles that pages need.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/auth/audit.h"
#include "server/auth/policy_file.h"
#include "server/observe_http/http.h"

namespace gemmd {

// The policy is the one that rules the gRPC side. Thread-safe.
class PageAccess {
 public:
  struct Options {
    bool is_encrypted = false;      // the listener has TLS
    bool plaintext_tokens = false;  // tokens are taken though others may have read them
  };
  using Now = std::function<absl::Time()>;

  // All outlive it.
  PageAccess(const PolicyFile* policy, AuditLog* audit, const Options& options, Now now = absl::Now)
      : policy_(policy), audit_(audit), options_(options), now_(std::move(now)) {}

  // Checks the access to a page for those who observe or operate; the log has each refusal.
  // UNAUTHENTICATED, PERMISSION_DENIED: as Policy::Identify(). PERMISSION_DENIED: the caller has
  // neither role. INVALID_ARGUMENT: Authorization is given twice with different values, or is none
  // of "Bearer TOKEN".
  absl::Status Check(const HttpRequest& request) const;

 private:
  const PolicyFile* const policy_;
  AuditLog* const audit_;
  const Options options_;
  const Now now_;
};

}  // namespace gemmd
