// TLS of the HTTP listener, by the same files and rules as the gRPC side's.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/time/clock.h"
#include "boost/asio/ssl/context.hpp"
#include "server/auth/identity.h"
#include "server/rpc/tls_files.h"

namespace gemmd {

// Looks at the files again when a connection comes, at most once a second. For use by one thread.
class TlsContext {
 public:
  using Context = std::shared_ptr<boost::asio::ssl::context>;

  // INVALID_ARGUMENT as tls_files.h says. Warnings are left to the gRPC side, which reads the same.
  static absl::StatusOr<TlsContext> Make(const TlsFiles& files, const Clock* clock);

  // For the next connection. Files that are wrong change nothing; the gRPC side's log says so.
  Context Current();

 private:
  TlsContext(TlsFiles files, const Clock* clock, TlsBytes bytes, Context context);

  TlsFiles files_;
  const Clock* clock_;
  TlsBytes bytes_;
  Context context_;
  TimeNs next_look_;
};

// Returns the names in the client's certificate, which the handshake has verified; none where it
// showed none. Names with a zero byte are left out: C strings would read them as another's.
CallerCredentials CertificateOf(SSL* connection);

}  // namespace gemmd
