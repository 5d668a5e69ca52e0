#include "server/observe_http/server_metrics.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/version.h"
#include "server/observe/allocated_memory.h"
#include "server/observe/process_usage.h"
#include "server/observe_http/device_metrics.h"
#include "server/observe_http/metric_families.h"

namespace gemmd {
namespace {

constexpr double kSecondsPerNs = 1e-9;
constexpr char kUnnamed[] = "(none)";

MetricBuckets BucketsOf(const DurationHistogram& durations) {
  MetricBuckets buckets;
  for (const TimeNs bound : kDurationBounds) {
    buckets.bounds.push_back(static_cast<double>(bound) * kSecondsPerNs);
  }
  buckets.counts.assign(durations.counts.begin(), durations.counts.end());
  buckets.sum = static_cast<double>(durations.sum) * kSecondsPerNs;
  return buckets;
}

void AddRequests(const Statistics& statistics, const Router& router, Families* families) {
  // Ends are read first, so that no page tells of more ends than of products let in.
  const Statistics::Snapshot totals = statistics.Read();
  families->push_back(
      With(Counter("gemmd_requests_received", "", "Products that clients began"), totals.received));
  families->push_back(With(Counter("gemmd_requests_admitted", "", "Products that the queue took"),
                           router.requests()));
  families->push_back(
      With(Gauge("gemmd_requests_in_flight", "", "Products that were begun and have not ended"),
           totals.in_flight));
  MetricFamily finished =
      Counter("gemmd_requests_finished", "", "Products that ended, by their status code");
  for (const auto& [code, count] : totals.finished) {
    finished.Add({{"code", code}}, static_cast<double>(count));
  }
  families->push_back(std::move(finished));
  MetricFamily refused = Counter("gemmd_requests_refused", "",
                                 "Products that ended before the queue had them, by the cause");
  for (std::size_t i = 0; i < kRefusalCauses; ++i) {
    refused.Add({{"cause", std::string(Name(static_cast<RefusalCause>(i)))}},
                static_cast<double>(totals.refused[i]));
  }
  families->push_back(std::move(refused));

  MetricFamily payload =
      Counter("gemmd_payload_bytes", "bytes",
              "Matrices of products that ended OK, over the wire and in shared memory");
  payload.Add({{"direction", "in"}, {"via", "wire"}}, static_cast<double>(totals.payload_bytes_in));
  payload.Add({{"direction", "out"}, {"via", "wire"}},
              static_cast<double>(totals.payload_bytes_out));
  payload.Add({{"direction", "in"}, {"via", "shared_memory"}},
              static_cast<double>(totals.shared_bytes_in));
  payload.Add({{"direction", "out"}, {"via", "shared_memory"}},
              static_cast<double>(totals.shared_bytes_out));
  families->push_back(std::move(payload));
  families->push_back(With(
      Counter("gemmd_flops", "", "Floating-point operations of products that ended OK, 2MNK each"),
      totals.flops));

  MetricFamily durations =
      Family("gemmd_request_duration_seconds", MetricType::kHistogram, "seconds",
             "From a product's header to its receipt, of those that ended OK");
  MetricSample all{{}, 0, BucketsOf(totals.durations)};
  for (const std::optional<Statistics::Example>& example : totals.examples) {
    if (!example.has_value()) {
      all.buckets.exemplars.emplace_back();
      continue;
    }
    all.buckets.exemplars.push_back(
        Exemplar{{{"request_id", absl::StrCat(example->request_id)}},
                 static_cast<double>(example->duration) * kSecondsPerNs});
  }
  durations.samples.push_back(std::move(all));
  families->push_back(std::move(durations));
  MetricFamily stages = Family("gemmd_stage_duration_seconds", MetricType::kHistogram, "seconds",
                               "Each stage's intervals, of products that ended OK; they overlap");
  for (std::size_t i = 0; i < kStageCount; ++i) {
    stages.samples.push_back({{{"stage", std::string(Name(static_cast<Stage>(i)))}},
                              0,
                              BucketsOf(totals.stages[i].durations)});
  }
  families->push_back(std::move(stages));
}

void AddProducts(const Statistics::ByName& by_name, Families* families) {
  MetricFamily requests = Counter("gemmd_product_requests", "",
                                  "Products that ended OK, by their shape (M x N x K) and types");
  MetricFamily flops = Counter("gemmd_product_flops", "", "Their floating-point operations");
  MetricFamily seconds =
      Counter("gemmd_product_compute_seconds", "seconds",
              "What they computed; a launch that several share is shared by their FLOPs");
  const auto add = [&](const std::string& product, const Statistics::KernelTotals& totals) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(product, absl::MaxSplits(' ', 1));
    const MetricLabels labels = {{"shape", parts.first}, {"types", parts.second}};
    requests.Add(labels, static_cast<double>(totals.requests));
    flops.Add(labels, totals.flops);
    seconds.Add(labels, totals.compute_seconds);
  };
  for (const auto& [product, totals] : by_name.products) add(product, totals);
  add(absl::StrCat(kOther, " ", kOther), by_name.other_products);
  for (MetricFamily* each : {&requests, &flops, &seconds}) families->push_back(std::move(*each));
}

// `with_joules`: the devices may count energy.
void AddByName(const Statistics& statistics, bool with_joules, Families* families) {
  const Statistics::ByName by_name = statistics.ReadByName();
  MetricFamily kernel_joules =
      Counter("gemmd_kernel_joules", "joules", "Energy of products, as their receipts estimate it");
  MetricFamily tenant_joules = Counter("gemmd_tenant_joules", "joules", "The same, by tenant");
  MetricFamily requests = Counter("gemmd_kernel_requests", "",
                                  "Products that ended OK, by the kernel that served them");
  MetricFamily flops = Counter("gemmd_kernel_flops", "", "Their floating-point operations");
  MetricFamily seconds =
      Counter("gemmd_kernel_compute_seconds", "seconds",
              "What they computed; a launch that several share is shared by their FLOPs");
  const auto add_kernel = [&](const std::string& name, const Statistics::KernelTotals& totals) {
    requests.Add({{"kernel", name}}, static_cast<double>(totals.requests));
    flops.Add({{"kernel", name}}, totals.flops);
    seconds.Add({{"kernel", name}}, totals.compute_seconds);
    kernel_joules.Add({{"kernel", name}}, totals.joules);
  };
  for (const auto& [name, totals] : by_name.kernels) add_kernel(name, totals);
  add_kernel(kOther, by_name.other_kernels);
  for (MetricFamily* each : {&requests, &flops, &seconds}) families->push_back(std::move(*each));

  AddProducts(by_name, families);

  MetricFamily ended = Counter("gemmd_tenant_requests", "",
                               "Products that were let in and ended, by whose they were");
  MetricFamily bytes =
      Counter("gemmd_tenant_payload_bytes", "bytes", "Of those that ended OK, both ways");
  MetricFamily work =
      Counter("gemmd_tenant_flops", "", "Floating-point operations of those that ended OK");
  MetricFamily time = Counter("gemmd_tenant_compute_seconds", "seconds",
                              "What they computed; a launch that several share is shared by FLOPs");
  const auto add_tenant = [&](const std::string& name, const Statistics::TenantTotals& totals) {
    const MetricLabels whose = {{"tenant", name}};
    ended.Add({{"tenant", name}, {"outcome", "ok"}}, static_cast<double>(totals.ok));
    ended.Add({{"tenant", name}, {"outcome", "failed"}}, static_cast<double>(totals.failed));
    bytes.Add(whose, static_cast<double>(totals.payload_bytes));
    work.Add(whose, totals.flops);
    time.Add(whose, totals.compute_seconds);
    tenant_joules.Add(whose, totals.joules);
  };
  for (const auto& [name, totals] : by_name.tenants) {
    add_tenant(name.empty() ? kUnnamed : name, totals);
  }
  add_tenant(kOther, by_name.other_tenants);
  for (MetricFamily* each : {&ended, &bytes, &work, &time}) families->push_back(std::move(*each));
  if (!with_joules) return;
  families->push_back(std::move(kernel_joules));
  families->push_back(std::move(tenant_joules));
}

void AddStore(const StoreStatistics& store, Families* families) {
  families->push_back(
      With(Gauge("gemmd_operands", "", "Matrices that the server keeps"), store.residents));
  families->push_back(With(Gauge("gemmd_operand_bytes", "bytes", "What they have, tightly packed"),
                           store.resident_bytes));
  families->push_back(
      With(Gauge("gemmd_operand_reserved_bytes", "bytes", "What they and uploads have taken"),
           store.reserved_bytes));
  families->push_back(
      With(Gauge("gemmd_operand_limit_bytes", "bytes", "What that may reach"), store.limit_bytes));
  families->push_back(With(Gauge("gemmd_operand_uploads", "", "Uploads that have not ended"),
                           store.partial_uploads));
  MetricFamily moved = Counter("gemmd_operand_transfer_bytes", "bytes",
                               "Of uploads, of what came twice, and of downloads");
  moved.Add({{"kind", "uploaded"}}, static_cast<double>(store.uploaded_bytes));
  moved.Add({{"kind", "repeated"}}, static_cast<double>(store.repeated_bytes));
  moved.Add({{"kind", "downloaded"}}, static_cast<double>(store.downloaded_bytes));
  families->push_back(std::move(moved));
  MetricFamily lookups = Counter("gemmd_operand_lookups", "",
                                 "Operands that products named, and whether they were there");
  lookups.Add({{"result", "hit"}}, static_cast<double>(store.hits));
  lookups.Add({{"result", "miss"}}, static_cast<double>(store.misses));
  families->push_back(std::move(lookups));
  families->push_back(
      With(Counter("gemmd_operand_evictions", "", "Matrices that made room"), store.evictions));
  MetricFamily copies = Counter("gemmd_operand_copies", "",
                                "Copies of matrices on one more device: made, dropped to make "
                                "room, and wanted where there was none");
  copies.Add({{"kind", "made"}}, static_cast<double>(store.copies));
  copies.Add({{"kind", "dropped"}}, static_cast<double>(store.copies_dropped));
  copies.Add({{"kind", "without_room"}}, static_cast<double>(store.copies_without_room));
  families->push_back(std::move(copies));
  families->push_back(
      With(Gauge("gemmd_operand_copy_bytes", "bytes", "What lies on a device and on another too"),
           store.copy_bytes));
}

void AddHost(const MetricSources& sources, Families* families) {
  const RegionTable::Usage regions = sources.regions->usage();
  families->push_back(With(Gauge("gemmd_shared_memory_regions", "", "Regions registered or in use"),
                           regions.regions));
  MetricFamily holders = Gauge("gemmd_host_memory_bytes", "bytes", "Host memory, by who holds it");
  holders.Add({{"holder", "shared_memory"}}, static_cast<double>(regions.bytes));
  holders.Add({{"holder", "operands"}},
              static_cast<double>(sources.store->statistics().reserved_bytes));
  holders.Add({{"holder", "waiting_requests"}}, static_cast<double>(sources.room->bytes()));
  holders.Add({{"holder", "allocator"}}, static_cast<double>(AllocatedBytes()));
  families->push_back(std::move(holders));
  families->push_back(
      With(Gauge("gemmd_shared_memory_limit_bytes", "bytes", "What regions may have together"),
           sources.regions->options().max_bytes));
  families->push_back(With(Gauge("gemmd_waiting_requests", "", "Products that wait for memory"),
                           sources.room->waiting()));
  families->push_back(With(Gauge("gemmd_draining", "", "1 once the server takes no more"),
                           sources.router->draining() ? 1 : 0));

  const ConnectionTable::Usage connections = sources.connections->usage();
  families->push_back(
      With(Gauge("gemmd_connections", "", "Connections of gRPC clients"), connections.open));
  families->push_back(
      With(Gauge("gemmd_connections_limit", "", "How many there may be"), connections.limit));
  families->push_back(With(Counter("gemmd_connections_taken", "", "Connections that were accepted"),
                           connections.taken));
  families->push_back(With(Counter("gemmd_connections_refused", "", "Connections over a limit"),
                           connections.refused));
  const HttpServer::Counts http = sources.http();
  MetricFamily pages = Counter("gemmd_http_requests", "", "Requests of the HTTP listener");
  pages.Add({{"outcome", "answered"}}, static_cast<double>(http.requests));
  pages.Add({{"outcome", "rejected"}}, static_cast<double>(http.rejected));
  pages.Add({{"outcome", "timed_out"}}, static_cast<double>(http.timeouts));
  families->push_back(std::move(pages));
}

// Names stay out of it, because clients choose them: `gemm stats --holdings` tells them.
void AddHoldings(const HoldingsOverview& holdings, Families* families) {
  constexpr std::array<const char*, kParties> kNames = {"tenant", "address", "all"};
  constexpr char kHelp[] =
      "Of each quantity, what all clients hold, and the tenant and the address that hold most";
  constexpr char kLimitHelp[] = "The limits of gemmd_holdings, where there are any";
  MetricFamily counts = Gauge("gemmd_holdings", "", kHelp);
  MetricFamily bytes = Gauge("gemmd_holdings_bytes", "bytes", kHelp);
  MetricFamily limits = Gauge("gemmd_holdings_limit", "", kLimitHelp);
  MetricFamily byte_limits = Gauge("gemmd_holdings_limit_bytes", "bytes", kLimitHelp);
  for (const Holding& each : holdings.All(1)) {
    const bool is_bytes = absl::EndsWith(each.quantity, "bytes");
    const MetricLabels labels = {{"quantity", each.quantity},
                                 {"party", kNames[static_cast<std::size_t>(each.party)]},
                                 {"device", each.device}};
    (is_bytes ? bytes : counts).Add(labels, static_cast<double>(each.held));
    if (each.limit == kUnlimited) continue;
    (is_bytes ? byte_limits : limits).Add(labels, static_cast<double>(each.limit));
  }
  for (MetricFamily* each : {&counts, &bytes, &limits, &byte_limits}) {
    families->push_back(std::move(*each));
  }
}

void AddVerification(const VerificationStatistics& verification, Families* families) {
  MetricFamily products =
      Counter("gemmd_verified_products", "", "Products that were verified, or were to be");
  products.Add({{"result", "right"}},
               static_cast<double>(verification.checked - verification.failed));
  products.Add({{"result", "wrong"}}, static_cast<double>(verification.failed));
  products.Add({{"result", "dropped"}}, static_cast<double>(verification.dropped));
  products.Add({{"result", "unverifiable"}}, static_cast<double>(verification.unverifiable));
  families->push_back(std::move(products));
  families->push_back(With(
      Gauge("gemmd_verification_worst_residual", "", "The worst since the start; above 1 is wrong"),
      verification.worst_residual));
}

void AddTuning(const Tuner& tuner, std::size_t measured_plans, Families* families) {
  const Tuner::Counts counts = tuner.counts();
  families->push_back(With(Gauge("gemmd_tuning_running", "", "1 while a call of Tune measures"),
                           counts.is_running));
  MetricFamily tunings = Counter("gemmd_tunings", "", "Calls of Tune that ended, by how");
  tunings.Add({{"outcome", "finished"}}, static_cast<double>(counts.finished));
  tunings.Add({{"outcome", "failed"}}, static_cast<double>(counts.failed));
  families->push_back(std::move(tunings));
  MetricFamily tried = Counter("gemmd_tuned_plans", "", "Plans of the tunings that finished");
  tried.Add({{"outcome", "measured"}}, static_cast<double>(counts.measured_plans));
  tried.Add({{"outcome", "rejected"}}, static_cast<double>(counts.rejected_plans));
  families->push_back(std::move(tried));
  families->push_back(With(
      Gauge("gemmd_measured_plans", "", "Problems whose plan was measured here"), measured_plans));
}

// Counts of the trace ring, and of spans sent to a collector.
void AddTraces(const Tracer& tracer, Families* families) {
  const TraceRing& ring = tracer.ring();
  families->push_back(With(
      Gauge("gemmd_trace_ring_bytes", "bytes", "Memory that the last requests' stages may take"),
      ring.bytes()));
  families->push_back(
      With(Counter("gemmd_trace_requests", "", "Products whose stages were to be remembered"),
           ring.written()));
  families->push_back(With(Counter("gemmd_trace_requests_dropped", "",
                                   "Of them, those that were not, because somebody read there"),
                           ring.dropped()));
  if (tracer.exporter() == nullptr) return;
  const OtlpExporter::Counts counts = tracer.exporter()->counts();
  families->push_back(With(Counter("gemmd_otlp_spans_sent", "", "Spans that the collector took"),
                           counts.sent_spans));
  MetricFamily dropped =
      Counter("gemmd_otlp_spans_dropped", "", "Spans that it did not get, by the cause");
  dropped.Add({{"cause", "queue_full"}}, static_cast<double>(counts.queue_full));
  dropped.Add({{"cause", "refused"}}, static_cast<double>(counts.refused));
  dropped.Add({{"cause", "unreachable"}}, static_cast<double>(counts.unreachable));
  families->push_back(std::move(dropped));
  families->push_back(With(Gauge("gemmd_otlp_queue_bytes", "bytes", "Spans that wait to be sent"),
                           counts.queued_bytes));
}

void AddProcess(const std::optional<double>& certificate_expiry, Families* families) {
  MetricFamily build = Family("gemmd_build", MetricType::kInfo, "", "What runs");
  build.Add({{"version", kVersion}}, 1);
  families->push_back(std::move(build));
  if (certificate_expiry.has_value()) {
    families->push_back(With(Gauge("gemmd_certificate_expiry_timestamp_seconds", "seconds",
                                   "When the server's certificate ends, since 1970"),
                             *certificate_expiry));
  }
  const std::optional<ProcessUsage> usage = ReadProcessUsage();
  if (!usage.has_value()) return;
  // As every client library of Prometheus names them.
  families->push_back(
      With(Counter("process_cpu_seconds", "seconds", "User and system time of all threads"),
           usage->cpu_seconds));
  families->push_back(With(Gauge("process_resident_memory_bytes", "bytes", "Physical memory"),
                           usage->resident_bytes));
  families->push_back(
      With(Gauge("process_open_fds", "", "File descriptors in use"), usage->open_files));
  families->push_back(
      With(Gauge("process_max_fds", "", "How many there may be"), usage->most_files));
  families->push_back(
      With(Gauge("process_start_time_seconds", "seconds", "When the process started, since 1970"),
           usage->start_seconds));
}

}  // namespace

std::size_t MostSeries(std::size_t devices) {
  // Buckets, the last one, the sum and the count.
  constexpr std::size_t kDurationSeries = kDurationBounds.size() + 3;
  constexpr std::size_t kSizeSeries = SchedulerStatistics::Sizes::kBounds + 3;
  constexpr std::size_t kCodes = 17;
  constexpr std::size_t kSingle = 64;  // those without labels, or with a handful of values
  constexpr std::size_t kEachKernel = 4;
  constexpr std::size_t kEachProduct = 3;
  constexpr std::size_t kEachTenant = 6;
  constexpr std::size_t kEachQuantity = 2 * kParties;  // that is held, with its limits
  constexpr std::size_t kServerQuantities = 12;
  constexpr std::size_t kDeviceQuantities = 4;
  constexpr std::size_t kEachDevice =
      64 + 2 * kSizeSeries + (SchedulerStatistics::kKernels + 1) * kBatchFormCount;
  return kSingle + kCodes + kRefusalCauses + (1 + kStageCount) * kDurationSeries +
         kEachKernel * (Statistics::kKernels + 1) + kEachProduct * (Statistics::kProducts + 1) +
         kEachTenant * (Statistics::kTenants + 1) + kServerQuantities * kEachQuantity +
         devices * (kEachDevice + kDeviceQuantities * kEachQuantity);
}

std::vector<MetricFamily> CollectMetrics(const MetricSources& sources) {
  Families families;
  AddProcess(sources.certificate_expiry(), &families);
  AddRequests(*sources.statistics, *sources.router, &families);
  AddByName(*sources.statistics, sources.gpus != nullptr, &families);
  AddDevices(*sources.router, *sources.admission, &families);
  AddStore(sources.store->statistics(), &families);
  AddHost(sources, &families);
  AddHoldings(*sources.holdings, &families);
  AddVerification(sources.verifier->statistics(), &families);
  AddTuning(*sources.tuner, sources.measured_plans(), &families);
  if (sources.tracer != nullptr) AddTraces(*sources.tracer, &families);
  if (sources.gpus != nullptr) AddGpus(*sources.gpus, &families);
  return families;
}

}  // namespace gemmd
