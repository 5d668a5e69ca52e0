// Decides whether a call is served: by who calls, and by the roles that its method asks for.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "server/auth/audit.h"
#include "server/auth/identity.h"
#include "server/auth/method_roles.h"
#include "server/auth/policy_file.h"

namespace gemmd {

// Reads the credentials from a call's headers. INVALID_ARGUMENT: gemmd-tenant or authorization is
// given twice, with different values, or authorization is none of "Bearer TOKEN".
absl::StatusOr<CallerCredentials> CredentialsOf(const grpc::ServerContextBase& context);

// A caller that was let in, and what is needed to ask again.
struct Login {
  Identity identity;
  CallerCredentials credentials;
  std::shared_ptr<const Policy> policy;  // by which it was let in
  const MethodRoles* method = nullptr;
  std::string peer;
};

// Thread-safe.
class Authorizer {
 public:
  // Returns OK if a tenant may have the connection that a call came over; the peer's name is
  // gRPC's.
  using CountConnection = std::function<absl::Status(const Tenant&, const std::string& peer)>;
  struct Options {
    bool is_encrypted = false;         // the server has TLS
    bool plaintext_tokens = false;     // tokens are taken though others may have read them
    CountConnection count_connection;  // null: nobody counts
  };
  using Now = std::function<absl::Time()>;

  // All outlive it.
  Authorizer(const PolicyFile* policy, AuditLog* audit, const Options& options, Now now = absl::Now)
      : policy_(policy), audit_(audit), options_(options), now_(std::move(now)) {}

  // UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT: as Policy::Identify() and
  // CredentialsOf(). PERMISSION_DENIED: the caller has none of the method's roles. Other errors are
  // those of Options::count_connection. The log has each refusal.
  absl::StatusOr<Login> Admit(const grpc::ServerContextBase& context,
                              const MethodRoles& method) const;

  // Checks a call that goes on: whether it would be let in now, as the same tenant. Errors and log
  // are as in Admit().
  absl::Status Check(Login* login) const;

 private:
  absl::Status AskAgain(Login* login, std::shared_ptr<const Policy> policy) const;

  const PolicyFile* const policy_;
  AuditLog* const audit_;
  const Options options_;
  const Now now_;
};

}  // namespace gemmd
