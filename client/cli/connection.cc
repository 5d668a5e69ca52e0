#include "client/cli/connection.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text/address.h"
#include "base/text/server_list.h"
#include "client/cli/options.h"
#include "client/details.h"
#include "client/file.h"

namespace gemmd::cli {
namespace {

// Leaves `text` alone where no path was given.
Outcome ReadWhole(const std::string& path, std::string& text) {
  if (path.empty()) return std::nullopt;
  const absl::StatusOr<client::InputFile> file = client::InputFile::Open(path);
  if (!file.ok()) return FileFailure(file.status());
  absl::StatusOr<std::string> bytes = file->Read(0, file->size_bytes());
  if (!bytes.ok()) return FileFailure(bytes.status());
  text = *std::move(bytes);
  return std::nullopt;
}

// Reads the token. Bytes that no header can carry are no token; neither is a whole file of
// something else.
Outcome ReadToken(const GlobalOptions& options, std::string& token) {
  constexpr std::size_t kMost = 4096;
  if (options.token_file.empty()) return std::nullopt;
  for (const std::string& server : ServersOf(options)) {
    if (options.tls || options.plaintext_token || IsLocalAddress(server)) continue;
    return UsageFailure(absl::StrCat("--token-file would be sent to ", server,
                                     " in plain text: give --tls, or --plaintext-token"));
  }
  if (Outcome failure = ReadWhole(options.token_file, token)) return failure;
  token = std::string(absl::StripAsciiWhitespace(token));
  if (!token.empty() && token.size() <= kMost &&
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return std::nullopt;
  }
  return UsageFailure(absl::StrCat("--token-file is ", options.token_file,
                                   ", which holds no token: 1 to ", kMost,
                                   " printable characters without blanks"));
}

void AddPatience(CLI::App& app, GlobalOptions& options) {
  app.add_option_function<std::string>(
         "--patience",
         [&options](const std::string& text) {
           if (!absl::ParseDuration(text, &options.patience) ||
               options.patience < absl::ZeroDuration()) {
             throw CLI::ValidationError("--patience",
                                        "'" + text + "' is no duration such as 10s, 1m or 0");
           }
         },
         "How long to retry a failed call; 0: never")
      ->type_name("DURATION")
      ->default_str("6s");
}

void AddTlsOptions(CLI::App& app, GlobalOptions& options) {
  CLI::Option* tls = app.add_flag("--tls", options.tls, "Encrypt, and check who the server is")
                         ->envname("GEMMD_TLS");
  app.add_option("--tls-root-certs", options.tls_root_certs,
                 "PEM file of authorities to trust instead of the system's")
      ->envname("GEMMD_TLS_ROOT_CERTS")
      ->needs(tls)
      ->type_name("FILE");
  CLI::Option* certificate =
      app.add_option("--tls-client-cert", options.tls_client_cert, "PEM file to be known by")
          ->envname("GEMMD_TLS_CLIENT_CERT")
          ->needs(tls)
          ->type_name("FILE");
  CLI::Option* key = app.add_option("--tls-client-key", options.tls_client_key, "Its private key")
                         ->envname("GEMMD_TLS_CLIENT_KEY")
                         ->needs(tls)
                         ->needs(certificate)
                         ->type_name("FILE");
  certificate->needs(key);
  app.add_option("--tls-server-name", options.tls_server_name,
                 "The name to expect in the server's certificate")
      ->envname("GEMMD_TLS_SERVER_NAME")
      ->needs(tls)
      ->type_name("NAME");
}

// Returns what prints the first failure to connect of a client, and no other: seconds pass until
// the call ends with it.
std::function<void(const client::Retry&)> UnreachableNotice(const GlobalOptions& options) {
  const std::string longest = absl::FormatDuration(std::min(options.patience, options.timeout));
  const auto is_told = std::make_shared<std::atomic<bool>>(false);
  return [every = options.server, longest, is_told](const client::Retry& retry) {
    // Another server is asked at once: there is no wait to explain.
    if (retry.delay == absl::ZeroDuration()) return;
    if (!client::IsUnreachable(retry.status) || is_told->exchange(true)) return;
    // gRPC names the failure behind the layers that it came through.
    const std::vector<std::string> causes = absl::StrSplit(retry.status.message(), ": ");
    const std::string one = client::ServerOf(retry.status);
    const std::string& server = one.empty() ? every : one;
    std::cerr << absl::StrCat("gemm: ", server, " does not answer (", causes.back(),
                              "); trying again for up to ", longest, "\n");
  };
}

Outcome ReadClientOptions(const GlobalOptions& options, client::ClientOptions& client) {
  client.retry = client::PolicyOf(options.patience);
  client.retry.on_retry = UnreachableNotice(options);
  const std::vector<std::string> servers = ServersOf(options);
  if (servers.size() > 1 || NameOfServers(servers.front())) client.servers = servers;
  client.affinity_header = options.affinity_header;
  return ReadChannelOptions(options, client.channel);
}

}  // namespace

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option("--server,--servers", options.server,
                 "Where the server listens; port 50051 unless it has one. Several with commas "
                 "between them, and dns:///NAME, which is all addresses of NAME, are one client's "
                 "(docs/several-servers.md)")
      ->envname("GEMMD_SERVER")
      ->type_name("HOST[:PORT][,...]")
      ->capture_default_str();
  app.add_flag("--affinity-header", options.affinity_header,
               "Say the digest of a kept operand as the header gemmd-affinity, for a proxy that "
               "spreads calls by it");
  AddDuration(app, "--timeout", options.timeout, "For each call, its retries included")
      ->default_str("60s");
  AddPatience(app, options);
  app.add_flag("--json", options.json, "Print one JSON object, for an error too");
  app.add_option("--tenant", options.tenant, "Tenant that owns the matrices you keep and see")
      ->envname("GEMMD_TENANT")
      ->type_name("NAME");
  CLI::Option* token =
      app.add_option("--token-file", options.token_file, "File with the token that identifies you")
          ->envname("GEMMD_TOKEN_FILE")
          ->type_name("FILE");
  app.add_flag("--plaintext-token", options.plaintext_token,
               "Send the token without --tls, so that others can read it")
      ->needs(token);
  AddTlsOptions(app, options);
}

std::vector<std::string> ServersOf(const GlobalOptions& options) {
  std::vector<std::string> entries = ServerEntries(options.server);
  const absl::StatusOr<std::vector<std::string>> targets = ServerTargets("--server", entries);
  return targets.ok() ? *targets : entries;
}

Outcome WantOneServer(const GlobalOptions& options, const std::string& command) {
  const absl::StatusOr<std::vector<std::string>> servers =
      ServerTargets("--server", ServerEntries(options.server));
  if (!servers.ok()) return UsageFailure(servers.status().message());
  if (servers->size() == 1) return std::nullopt;
  return UsageFailure(absl::StrCat("gemm ", command, " is about one server, and --server names ",
                                   servers->size(), ": ", options.server));
}

Outcome ReadChannelOptions(const GlobalOptions& options, client::ChannelOptions& channel) {
  const absl::StatusOr<std::vector<std::string>> targets =
      ServerTargets("--server", ServerEntries(options.server));
  if (!targets.ok()) return UsageFailure(targets.status().message());
  if (targets->size() == 1) channel.target = targets->front();
  channel.tenant = options.tenant;
  if (Outcome failure = ReadToken(options, channel.token)) return failure;
  if (options.tls) {
    client::TlsOptions& tls = channel.tls.emplace();
    if (Outcome failure = ReadWhole(options.tls_root_certs, tls.root_certificates)) return failure;
    if (Outcome failure = ReadWhole(options.tls_client_cert, tls.client_certificate)) {
      return failure;
    }
    if (Outcome failure = ReadWhole(options.tls_client_key, tls.client_key)) return failure;
    tls.server_name_override = options.tls_server_name;
  }
  return std::nullopt;
}

Outcome Connect(const GlobalOptions& options, std::unique_ptr<client::Client>& result) {
  client::ClientOptions client_options;
  if (Outcome failure = ReadClientOptions(options, client_options)) return failure;
  result = std::make_unique<client::Client>(client_options);
  return std::nullopt;
}

Outcome Connect(const GlobalOptions& options, std::unique_ptr<client::Operands>& result) {
  client::ClientOptions client_options;
  if (Outcome failure = ReadClientOptions(options, client_options)) return failure;
  result = std::make_unique<client::Operands>(client_options);
  return std::nullopt;
}

client::CallOptions CallWithin(absl::Duration timeout) {
  client::CallOptions call;
  call.timeout = timeout;
  return call;
}

}  // namespace gemmd::cli
