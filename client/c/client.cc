#include <string>
#include <utility>
#include <vector>

#include "base/text/server_list.h"
#include "base/version.h"
#include "client/c/arguments.h"
#include "client/c/errors.h"
#include "client/c/handles.h"
#include "google/protobuf/util/json_util.h"

namespace gemmd::client::c {
namespace {

std::string TextOf(const char* text) { return text == nullptr ? std::string() : text; }

absl::StatusOr<std::optional<TlsOptions>> TlsOf(const gemmd_client_options& given) {
  TlsOptions tls;
  tls.root_certificates = TextOf(given.root_certificates);
  tls.client_certificate = TextOf(given.client_certificate);
  tls.client_key = TextOf(given.client_key);
  tls.server_name_override = TextOf(given.server_name);
  if (given.tls) {
    if (tls.client_certificate.empty() != tls.client_key.empty()) {
      return absl::InvalidArgumentError(
          "options.client_key is given without client_certificate, or the other way round: both "
          "are needed, or none");
    }
    return std::optional<TlsOptions>(std::move(tls));
  }
  for (const auto& [name, text] : {std::pair("root_certificates", &tls.root_certificates),
                                   std::pair("client_certificate", &tls.client_certificate),
                                   std::pair("client_key", &tls.client_key),
                                   std::pair("server_name", &tls.server_name_override)}) {
    if (!text->empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("options.", name, " is given, and options.tls is false: it belongs to TLS"));
    }
  }
  return std::optional<TlsOptions>();
}

absl::Status NewClient(const gemmd_client_options* options, gemmd_client** client) {
  if (absl::Status s = CheckNotNull("client", client); !s.ok()) return s;
  *client = nullptr;
  gemmd_client_options given = GEMMD_CLIENT_OPTIONS_INIT;
  if (options != nullptr) {
    if (absl::Status s = CheckSized("options", options); !s.ok()) return s;
    given = KnownOf(*options);
  }
  ClientOptions ours;
  if (const std::string target = TextOf(given.target); !target.empty()) {
    const std::vector<std::string> entries = ServerEntries(target);
    if (entries.size() > 1 || NameOfServers(target)) {
      ours.servers = entries;
    } else {
      ours.channel.target = target;
    }
  }
  // Else the clients of a process would share one, and a new client a connection that went silent.
  ours.channel.own_connection = true;
  ours.channel.token = TextOf(given.token);
  ours.channel.tenant = TextOf(given.tenant);
  ours.affinity_header = given.affinity_header;
  absl::StatusOr<std::optional<TlsOptions>> tls = TlsOf(given);
  if (!tls.ok()) return tls.status();
  ours.channel.tls = *std::move(tls);
  if (given.retry_patience_ms == -1) {
    ours.retry = PolicyOf(absl::ZeroDuration());
  } else {
    const auto patience =
        DurationOf("options.retry_patience_ms", given.retry_patience_ms, RetryPolicy().patience);
    if (!patience.ok()) return patience.status();
    if (given.retry_patience_ms != 0) ours.retry = PolicyOf(*patience);
  }
  const auto timeout = DurationOf("options.timeout_ms", given.timeout_ms, absl::InfiniteDuration());
  if (!timeout.ok()) return timeout.status();
  *client = new gemmd_client(ours, *timeout);
  return absl::OkStatus();
}

absl::Status FreeClient(gemmd_client* client) {
  if (client == nullptr) return absl::OkStatus();
  if (IsInCallback()) {
    return absl::FailedPreconditionError("a callback cannot free a client, which waits for it");
  }
  client->calls->CancelAll();
  client->calls->WaitForNone();
  delete client;
  return absl::OkStatus();
}

absl::Status GetServerInfo(gemmd_client* client, std::int64_t timeout_ms,
                           gemmd_server_info** info) {
  if (absl::Status s = CheckNotNull("info", info); !s.ok()) return s;
  *info = nullptr;
  const absl::StatusOr<WaitingCall> waiting = WaitingCall::Begin(client);
  if (!waiting.ok()) return waiting.status();
  const auto timeout = DurationOf("timeout_ms", timeout_ms, client->timeout);
  if (!timeout.ok()) return timeout.status();
  CallOptions call;
  call.timeout = *timeout;
  const absl::StatusOr<v1::ServerInfoResponse> response = client->client.ServerInfo(call);
  if (!response.ok()) return response.status();
  auto told = std::make_unique<gemmd_server_info>();
  told->version = response->version();
  for (const v1::DeviceInfo& device : response->devices()) told->devices.push_back(device.name());
  google::protobuf::util::JsonPrintOptions print;
  print.always_print_primitive_fields = true;
  print.preserve_proto_field_names = true;
  const auto printed = google::protobuf::util::MessageToJsonString(*response, &told->json, print);
  if (!printed.ok()) return absl::InternalError("the server's description is no JSON");
  *info = told.release();
  return absl::OkStatus();
}

}  // namespace

}  // namespace gemmd::client::c

using gemmd::client::c::Guarded;

extern "C" {

const char* gemmd_version(void) { return gemmd::kVersion; }

gemmd_code gemmd_client_new(const gemmd_client_options* options, gemmd_client** client,
                            gemmd_error** error) {
  return Guarded(error, [&] { return gemmd::client::c::NewClient(options, client); });
}

gemmd_code gemmd_client_free(gemmd_client* client, gemmd_error** error) {
  return Guarded(error, [&] { return gemmd::client::c::FreeClient(client); });
}

gemmd_code gemmd_server_info_get(gemmd_client* client, int64_t timeout_ms, gemmd_server_info** info,
                                 gemmd_error** error) {
  return Guarded(error, [&] { return gemmd::client::c::GetServerInfo(client, timeout_ms, info); });
}

const char* gemmd_server_info_version(const gemmd_server_info* info) {
  return info == nullptr ? "" : info->version.c_str();
}

int32_t gemmd_server_info_device_count(const gemmd_server_info* info) {
  return info == nullptr ? 0 : static_cast<int32_t>(info->devices.size());
}

const char* gemmd_server_info_device_name(const gemmd_server_info* info, int32_t index) {
  if (index < 0 || index >= gemmd_server_info_device_count(info)) return nullptr;
  return info->devices[static_cast<std::size_t>(index)].c_str();
}

const char* gemmd_server_info_json(const gemmd_server_info* info) {
  return info == nullptr ? "" : info->json.c_str();
}

void gemmd_server_info_free(gemmd_server_info* info) { delete info; }

}  // extern "C"
