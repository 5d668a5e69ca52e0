// Proves who the server is, and asks clients who they are: TLS from files, which may change while
// it serves.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "grpcpp/security/server_credentials.h"
#include "server/rpc/memory_file.h"
#include "server/rpc/tls_files.h"

namespace gemmd {

// gRPC 1.51's FileWatcherCertificateProvider reads files once a second, but checks nothing: a key
// that is not the certificate's, or half a file, ends its old state before the new one fails, and
// from then on every handshake does. It also misses new lists of revoked certificates, which
// OpenSSL reads once for the life of a context. So it is given files in memory, in which stands
// nothing but what was read and checked here; each version of them has a number, so that gRPC makes
// a new context whenever anything changed.
//
// A context is renewed every kRenewal too: a session that a client resumes is not verified again,
// and tickets of an old context are worth nothing.
class ServerTls {
 public:
  static constexpr std::chrono::minutes kRenewal{10};

  // Looks at the files every `period`; zero: only when told. INVALID_ARGUMENT as tls_files.h says.
  // UNAVAILABLE as memory_file.h does. Warnings go to the log.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Start(const TlsFiles& files,
                                                          std::chrono::milliseconds period);
  ~ServerTls();
  ServerTls(const ServerTls&) = delete;
  ServerTls& operator=(const ServerTls&) = delete;

  const std::shared_ptr<grpc::ServerCredentials>& credentials() const { return credentials_; }

  // Looks at the files now. New connections have what they hold within a second, gRPC's own
  // period; those that are open stay as they are. If something is wrong, the status says what, as
  // Start() does; the old contents stay, and the log says so, once for each message.
  absl::Status Reload();

 private:
  ServerTls(TlsFiles files, TlsBytes bytes, const TlsMaterial& material, MemoryFile identity,
            MemoryFile client_authorities);
  void Watch(std::chrono::milliseconds period);
  absl::Status Take(const TlsBytes& bytes, const TlsMaterial& material)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Warn(const std::vector<std::string>& warnings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TlsFiles files_;
  Mutex mutex_;
  TlsBytes bytes_ ABSL_GUARDED_BY(mutex_);
  MemoryFile identity_ ABSL_GUARDED_BY(mutex_);
  MemoryFile client_authorities_ ABSL_GUARDED_BY(mutex_);
  int version_ ABSL_GUARDED_BY(mutex_) = 1;
  std::chrono::steady_clock::time_point renewed_ ABSL_GUARDED_BY(mutex_);
  std::string last_error_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> last_warnings_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  Mutex stop_mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(stop_mutex_) = false;
  std::thread watcher_;  // last: it uses all else
};

}  // namespace gemmd
