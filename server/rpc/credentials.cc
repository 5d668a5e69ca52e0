#include "server/rpc/credentials.h"

#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

// gRPC takes whole seconds.
constexpr unsigned kGrpcPeriodSeconds = 1;

// PEM with a line before it that no reader of PEM minds.
std::string Numbered(int version, const std::string& pem) {
  return absl::StrCat("version ", version, "\n", pem);
}

grpc_ssl_client_certificate_request_type RequestType(ClientCertificates which) {
  switch (which) {
    case ClientCertificates::kOptional:
      return GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    case ClientCertificates::kRequired:
      return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    case ClientCertificates::kNone:
      break;
  }
  return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
}

std::shared_ptr<grpc::ServerCredentials> Credentials(const TlsFiles& files,
                                                     const std::string& identity,
                                                     const std::string& client_authorities) {
  const bool has_authorities = !files.client_ca_file.empty();
  // Key and chain are one file, so that they are of one version; gRPC reads each from its own path
  // and looks at the times of modification before and after.
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      identity, identity, has_authorities ? client_authorities : std::string(), kGrpcPeriodSeconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  if (has_authorities) options.watch_root_certs();
  options.set_cert_request_type(RequestType(files.client_certificates));
  if (!files.crl_directory.empty()) options.set_crl_directory(files.crl_directory);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Start(const TlsFiles& files,
                                                            std::chrono::milliseconds period) {
  absl::StatusOr<TlsBytes> bytes = ReadTlsBytes(files);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<TlsMaterial> material = CheckTls(files, *bytes, std::time(nullptr));
  if (!material.ok()) return material.status();
  absl::StatusOr<MemoryFile> identity = MemoryFile::Make(Numbered(1, material->identity));
  if (!identity.ok()) return identity.status();
  absl::StatusOr<MemoryFile> authorities =
      MemoryFile::Make(Numbered(1, material->client_authorities));
  if (!authorities.ok()) return authorities.status();
  std::unique_ptr<ServerTls> tls(new ServerTls(files, *std::move(bytes), *material,
                                               *std::move(identity), *std::move(authorities)));
  if (period.count() > 0) {
    tls->watcher_ = std::thread([tls = tls.get(), period] { tls->Watch(period); });
  }
  return tls;
}

ServerTls::ServerTls(TlsFiles files, TlsBytes bytes, const TlsMaterial& material,
                     MemoryFile identity, MemoryFile client_authorities)
    : files_(std::move(files)),
      bytes_(std::move(bytes)),
      identity_(std::move(identity)),
      client_authorities_(std::move(client_authorities)),
      renewed_(std::chrono::steady_clock::now()),
      credentials_(Credentials(files_, identity_.path(), client_authorities_.path())) {
  const MutexLock lock(mutex_);
  Warn(material.warnings);
}

ServerTls::~ServerTls() {
  {
    const MutexLock lock(stop_mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

absl::Status ServerTls::Reload() {
  const MutexLock lock(mutex_);
  const absl::StatusOr<TlsBytes> bytes = ReadTlsBytes(files_);
  absl::Status status = bytes.status();
  if (status.ok()) {
    const bool is_due = std::chrono::steady_clock::now() >= renewed_ + kRenewal;
    if (*bytes != bytes_ || is_due) {
      const absl::StatusOr<TlsMaterial> material = CheckTls(files_, *bytes, std::time(nullptr));
      status = material.ok() ? Take(*bytes, *material) : material.status();
    }
  }
  if (!status.ok() && status.message() != last_error_) {
    Log(Severity::kWarning, "tls_not_reloaded", {{"error", status.message()}});
  }
  last_error_ = std::string(status.message());
  return status;
}

absl::Status ServerTls::Take(const TlsBytes& bytes, const TlsMaterial& material) {
  ++version_;
  // Authorities first: a client with a certificate of a new one may come as soon as the server
  // shows its new certificate.
  absl::Status status =
      client_authorities_.Replace(Numbered(version_, material.client_authorities));
  if (!status.ok()) return status;
  status = identity_.Replace(Numbered(version_, material.identity));
  if (!status.ok()) return status;
  if (bytes != bytes_) Log(Severity::kInfo, "tls_reloaded", {{"subject", material.subject}});
  bytes_ = bytes;
  renewed_ = std::chrono::steady_clock::now();
  Warn(material.warnings);
  return absl::OkStatus();
}

void ServerTls::Warn(const std::vector<std::string>& warnings) {
  if (warnings == last_warnings_) return;
  for (const std::string& each : warnings) Log(Severity::kWarning, "tls", {{"warning", each}});
  last_warnings_ = warnings;
}

void ServerTls::Watch(std::chrono::milliseconds period) {
  RelockableMutexLock lock(stop_mutex_);
  while (!stop_.wait_for(stop_mutex_, period, stopping_)) {
    lock.unlock();
    static_cast<void>(Reload());  // which logs
    lock.lock();
  }
}

}  // namespace gemmd
