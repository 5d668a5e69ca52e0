#include "server/settings/settings.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <string>

#include "absl/strings/str_split.h"
#include "base/process/cpu_share.h"
#include "base/process/memory_share.h"
#include "base/time/units.h"
#include "server/admission/percent.h"
#include "server/net/descriptor_limit.h"
#include "server/rpc/calls/peer.h"
#include "server/settings/scheduling_options.h"

namespace gemmd {
namespace {

// Messages under way are few beside operands and results, which take half.
constexpr std::uint64_t kReceiveMemoryPart = 8;

// A call that does nothing takes some 20 KB of gRPC's memory: a sixth of the process's, then.
std::size_t CallsOf(const config::Limits& limits) {
  constexpr std::uint64_t kBytesEach = 1 << 17;
  constexpr std::uint64_t kFew = 256;
  constexpr std::uint64_t kMany = 65536;
  return limits.calls() != 0 ? static_cast<std::size_t>(limits.calls())
                             : std::clamp(UsableMemoryBytes() / kBytesEach, kFew, kMany);
}

TlsFiles TlsFilesOf(const config::Tls& config) {
  TlsFiles files;
  files.certificate_file = config.certificate_file();
  files.key_file = config.key_file();
  files.client_ca_file = config.client_ca_file();
  files.crl_directory = config.crl_directory();
  const std::string& which = config.client_certificates();
  const bool is_required =
      which == "required" || (which == "auto" && !files.client_ca_file.empty());
  files.client_certificates = is_required           ? ClientCertificates::kRequired
                              : which == "optional" ? ClientCertificates::kOptional
                                                    : ClientCertificates::kNone;
  return files;
}

// The time between connections of one address.
TimeNs ConnectionInterval(const config::Limits& limits) {
  const TimeNs per_second = limits.connections_per_second();
  return per_second == 0 ? 0 : kSecond / per_second;
}

std::size_t HalfOf(std::size_t whole) { return std::max<std::size_t>(1, whole / 2); }

}  // namespace

// A connection takes some 100 KB of gRPC's memory, and more with its calls.
std::size_t WantedConnections(const config::Limits& limits) {
  constexpr std::uint64_t kBytesEach = 1 << 20;
  constexpr std::uint64_t kFew = 64;
  constexpr std::uint64_t kMany = 4096;
  return limits.connections() != 0 ? static_cast<std::size_t>(limits.connections())
                                   : std::clamp(UsableMemoryBytes() / kBytesEach, kFew, kMany);
}

GrpcServerOptions RpcOptions(const config::ServerConfig& config, std::size_t descriptors) {
  GrpcServerOptions options;
  options.listen = config.listen();
  options.message_bytes = static_cast<std::uint64_t>(config.limits().message_bytes());
  // gRPC ends anybody's calls when its memory is full: a third of it is for messages that are not
  // whole, and one of them may be a largest message.
  options.memory_bytes =
      std::max(config.limits().receive_memory_bytes() != 0
                   ? static_cast<std::uint64_t>(config.limits().receive_memory_bytes())
                   : UsableMemoryBytes() / kReceiveMemoryPart,
               3 * options.message_bytes);
  options.streams_per_connection = static_cast<int>(config.limits().streams_per_connection());
  // A client that gives up leaves some that the server was not told of. One that opens and resets
  // calls leaves more in 20 ms.
  constexpr std::size_t kBeforeTold = 16;
  options.live_calls.all = CallsOf(config.limits());
  options.live_calls.in_progress =
      static_cast<std::size_t>(config.limits().streams_per_connection());
  options.live_calls.reset = kBeforeTold * options.live_calls.in_progress;
  options.live_calls.shared.merge(NamesOf(config.limits().proxies()));
  options.connections.all =
      std::min(WantedConnections(config.limits()), DescriptorsForConnections(descriptors));
  options.connections.per_peer =
      config.limits().connections_per_peer() != 0
          ? static_cast<std::size_t>(config.limits().connections_per_peer())
          : (options.connections.all + 3) / 4;
  options.connections.interval = ConnectionInterval(config.limits());
  options.connections.proxies = NamesOf(config.limits().proxies());
  options.proxy_protocol = NamesOf(config.limits().proxy_protocol());
  options.connection_age_ms = static_cast<int>(config.limits().connection_age_ms());
  options.connection_idle_ms = static_cast<int>(config.limits().connection_idle_ms());
  options.ping_interval_ms = static_cast<int>(config.limits().ping_interval_ms());
  options.channelz = config.channelz() == "on";
  options.oip = config.oip() == "on";
  options.tls = TlsFilesOf(config.tls());
  return options;
}

StoreOptions OperandOptions(const config::ServerConfig& server, std::uint64_t device_bytes,
                            const std::vector<Device*>& devices, Quotas* quotas) {
  const config::Operands& config = server.operands();
  StoreOptions options;
  options.quotas = quotas;
  std::copy_if(devices.begin(), devices.end(), std::back_inserter(options.landing_devices),
               [](const Device* device) { return !device->uses_host_memory(); });
  options.makes_copies = config.copies() != "off";
  options.all = {static_cast<std::uint64_t>(config.max_operands()),
                 config.memory_bytes() != 0 ? static_cast<std::uint64_t>(config.memory_bytes())
                                            : device_bytes / 2};
  const std::uint64_t share_bytes = PercentOf(options.all.bytes, config.tenant_percent());
  options.tenant = {
      PercentOf(options.all.operands, config.tenant_percent()),
      config.tenant_bytes() != 0 ? static_cast<std::uint64_t>(config.tenant_bytes()) : share_bytes};
  // No less than a tenant's, whose largest matrix could never come otherwise.
  options.address =
      StoreShare{options.tenant.operands, std::max(options.tenant.bytes, share_bytes)};
  options.proxies = NamesOf(server.limits().proxies());
  options.default_lease = config.default_lease_ms() * kMillisecond;
  options.max_lease = config.max_lease_ms() * kMillisecond;
  options.upload_lease = config.upload_lease_ms() * kMillisecond;
  options.upload_grace = ProgressLimitOf(server.limits()).window;
  // With more, other clients wait for the cores and for memory (docs/lab/long-products.md).
  constexpr int kPartOfCores = 8;
  options.upload_threads = std::max(1, UsableCpus() / kPartOfCores);
  return options;
}

ProgressLimit ProgressLimitOf(const config::Limits& limits) {
  ProgressLimit limit;
  limit.window = limits.stall_timeout_ms() * 1000000;
  limit.bytes_per_second = static_cast<std::uint64_t>(limits.min_bytes_per_second());
  return limit;
}

CallWatch::Limits CallLimits(const config::Limits& limits) {
  const std::size_t calls = CallsOf(limits);
  return {ProgressLimitOf(limits), calls, HalfOf(calls)};
}

// Calls that are slow to bring their message may hold half of what gRPC may. One address may have
// half of the calls, and of the slow ones. Parts of messages are limited by bytes, for all
// connections and for one address.
CallWatch::Options WatchOptions(const config::Limits& limits, const GrpcServerOptions& rpc,
                                const Admission* admission) {
  CallWatch::Options options;
  if (admission != nullptr) {
    options.memory_is_wanted = [admission] { return admission->IsMemoryWanted(); };
  }
  options.limits = CallLimits(limits);
  options.message_bytes = rpc.message_bytes;
  options.slow.all = HalfOf(rpc.memory_bytes / rpc.message_bytes);
  options.slow.per_address = HalfOf(options.slow.all);
  options.partial.all = rpc.memory_bytes / 3;
  options.partial.per_address = std::max(rpc.memory_bytes / 4, rpc.message_bytes);
  // With the room that is left in gRPC's buffers that is two thirds of it. The rest is for calls
  // and whole messages, and for what comes until connections are closed.
  options.partial.at_once = rpc.memory_bytes / 12 * 5;
  options.proxies = options.slow.proxies = options.partial.proxies = rpc.connections.proxies;
  return options;
}

MatmulSession::Options SessionOptions(const config::Limits& limits) {
  MatmulSession::Options options;
  options.message_bytes = static_cast<std::uint64_t>(limits.message_bytes());
  options.max_requests = static_cast<std::size_t>(limits.requests_per_session());
  options.chunk_bytes = static_cast<std::uint64_t>(limits.chunk_bytes());
  options.small_result_bytes = std::min(options.small_result_bytes, options.chunk_bytes);
  options.progress = ProgressLimitOf(limits);
  return options;
}

RegionOptions SharedMemoryOptions(const config::SharedMemory& config, Quotas* quotas) {
  RegionOptions options;
  options.quotas = quotas;
  options.name_prefixes = absl::StrSplit(config.name_prefix(), ',', absl::SkipEmpty());
  options.cuda_ipc = config.cuda_ipc() == "on";
  options.max_regions = static_cast<std::uint64_t>(config.max_regions());
  options.max_bytes = static_cast<std::uint64_t>(config.max_bytes());
  options.tenant_regions = PercentOf(options.max_regions, config.tenant_percent());
  options.tenant_bytes = PercentOf(options.max_bytes, config.tenant_percent());
  options.default_lease = config.default_lease_ms() * kMillisecond;
  options.max_lease = config.max_lease_ms() * kMillisecond;
  return options;
}

VerifierOptions VerificationOptionsOf(const config::Verification& config) {
  constexpr int kUsualThreads = 4;
  VerifierOptions options;
  options.sampled_per_million = static_cast<std::uint32_t>(config.sampled_per_million());
  options.threads = config.threads() != 0 ? static_cast<int>(config.threads())
                                          : std::min(UsableCpus(), kUsualThreads);
  options.seed = std::uint64_t{std::random_device()()} << 32U | std::random_device()();
  return options;
}

WaitingRoom::Bounds WaitingBounds(const config::ServerConfig& config,
                                  const GrpcServerOptions& rpc) {
  const config::Scheduling& scheduling = config.scheduling();
  WaitingRoom::Bounds bounds;
  bounds.requests = static_cast<std::size_t>(scheduling.max_queued_requests());
  // Half of what gRPC may hold, so that others' messages still come.
  bounds.bytes = rpc.memory_bytes / 2;
  bounds.client_percent = static_cast<int>(scheduling.tenant_percent());
  bounds.longest = scheduling.max_queued_ms() * 1000000;
  return bounds;
}

ClientPolicy ClientPolicyOf(const config::ServerConfig& config, WaitingRoom* room, Quotas* quotas) {
  ClientPolicy policy;
  policy.quotas = quotas;
  policy.memory_percent = static_cast<int>(config.scheduling().tenant_percent());
  policy.room = room;
  policy.proxies = NamesOf(config.limits().proxies());
  const std::set<std::string> high = NamesOf(config.scheduling().high_priority_tenants());
  if (high.count("*") == 0) policy.high_priority_tenants = high;
  return policy;
}

SlowLog::Options SlowLogOptions(const config::Log& config) {
  return {config.slow_ms() * kMillisecond, static_cast<int>(config.slow_per_second())};
}

Observability::Options ObserveOptions(const config::ServerConfig& config) {
  const config::Observe& observe = config.observe();
  Observability::Options options;
  options.plaintext_tokens = config.auth().plaintext_tokens() == "on";
  options.http.listen = observe.listen();
  options.http.connections.all = static_cast<std::size_t>(observe.connections());
  options.http.connections.per_peer = HalfOf(options.http.connections.all);
  options.http.connections.interval = ConnectionInterval(config.limits());
  options.http.connections.look_interval = 0;  // they are few
  options.http.connections.proxies = NamesOf(config.limits().proxies());
  options.http.reading = ProgressLimitOf(config.limits());
  options.http.timeout_ms = observe.timeout_ms();
  options.http.tls = TlsFilesOf(config.tls());
  return options;
}

Authorizer::Options AuthorizerOptions(const config::ServerConfig& config,
                                      ConnectionTable* connections) {
  Authorizer::Options options;
  options.count_connection = [connections](const Tenant& tenant, const std::string& peer) {
    return connections->CountFor(tenant, EndpointOf(peer));
  };
  options.is_encrypted = !config.tls().certificate_file().empty();
  options.plaintext_tokens = config.auth().plaintext_tokens() == "on";
  return options;
}

}  // namespace gemmd
