#include "server/observe_http/server_metrics.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/observe/allocated_memory.h"
#include "server/observe/process_usage.h"
#include "version.h"

namespace gemmd {
namespace {

constexpr double kSecondsPerNs = 1e-9;
constexpr double kSecondsPerUs = 1e-6;
// No kernel and no tenant is called so (Tenant::Named()).
constexpr char kOther[] = "(other)";
constexpr char kUnnamed[] = "(none)";

using Families = std::vector<MetricFamily>;

MetricFamily Family(std::string name, MetricType type, std::string unit, std::string help) {
  MetricFamily family;
  family.name = std::move(name);
  family.type = type;
  family.unit = std::move(unit);
  family.help = std::move(help);
  return family;
}

MetricFamily Counter(std::string name, std::string unit, std::string help) {
  return Family(std::move(name), MetricType::kCounter, std::move(unit), std::move(help));
}

MetricFamily Gauge(std::string name, std::string unit, std::string help) {
  return Family(std::move(name), MetricType::kGauge, std::move(unit), std::move(help));
}

template <typename T>
MetricFamily With(MetricFamily family, T value) {
  family.Add({}, static_cast<double>(value));
  return family;
}

MetricBuckets BucketsOf(const DurationHistogram& durations) {
  MetricBuckets buckets;
  for (const TimeNs bound : kDurationBounds) {
    buckets.bounds.push_back(static_cast<double>(bound) * kSecondsPerNs);
  }
  buckets.counts.assign(durations.counts.begin(), durations.counts.end());
  buckets.sum = static_cast<double>(durations.sum) * kSecondsPerNs;
  return buckets;
}

MetricBuckets BucketsOf(const SchedulerStatistics::Sizes& sizes) {
  MetricBuckets buckets;
  for (std::size_t i = 0; i < SchedulerStatistics::Sizes::kBounds; ++i) {
    buckets.bounds.push_back(static_cast<double>(std::uint64_t{1} << i));
  }
  buckets.counts.assign(sizes.counts.begin(), sizes.counts.end());
  buckets.sum = static_cast<double>(sizes.sum);
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

void AddMemory(const std::string& device, const MemoryUsage& usage, MetricFamily* bytes) {
  const auto add = [&](const char* kind, std::uint64_t value) {
    bytes->Add({{"device", device}, {"kind", kind}}, static_cast<double>(value));
  };
  add("resident", usage.resident_bytes);
  add("workspace", usage.workspace_bytes);
  add("in_flight", usage.in_flight_bytes);
  add("free", usage.free_bytes());
}

constexpr std::array<const char*, kBatchFormCount> kFormNames = {"alone", "rows", "group", "slice"};
static_assert(static_cast<std::size_t>(BatchForm::kAlone) == 0 &&
              static_cast<std::size_t>(BatchForm::kRows) == 1 &&
              static_cast<std::size_t>(BatchForm::kGroup) == 2 &&
              static_cast<std::size_t>(BatchForm::kSlice) == 3);

// Families of the devices' queues and launches, to which each device adds its samples.
class DeviceFamilies {
 public:
  void Add(const ServedDevice& served, const MemoryBytes& held) {
    const DeviceTraits& traits = served.device->traits();
    const MetricLabels device = {{"device", traits.name}};
    MetricLabels about = device;
    about.emplace_back("model", traits.model);
    info_.Add(about, 1);
    AddPeaks(traits);
    AddMemory(traits.name, served.device->memory().usage(), &memory_);
    const MemoryUsage pinned = served.device->host_memory_usage();
    if (pinned.limit_bytes != 0) AddMemory(traits.name, pinned, &pinned_);
    AddHeld(device, held);
    AddQueue(device, served.scheduler->statistics());
    AddAccuracy(device, served.scheduler->cost().accuracy());
  }

  void MoveTo(Families* families) {
    for (MetricFamily* each :
         {&info_,     &peaks_,        &memory_,      &pinned_,         &held_,
          &queued_,   &queued_bytes_, &queued_rows_, &backlog_,        &limit_,
          &launches_, &launched_,     &by_kernel_,   &batch_requests_, &batch_rows_,
          &late_,     &predictions_,  &predicted_,   &measured_,       &errors_}) {
      families->push_back(std::move(*each));
    }
  }

 private:
  static MetricLabels Labels(MetricLabels device, const char* name, std::string value) {
    device.emplace_back(name, std::move(value));
    return device;
  }

  // Only what a request can be limited by, not each type's own number.
  void AddPeaks(const DeviceTraits& traits) {
    constexpr double kGiga = 1e9;
    const auto add = [&](const char* type, double gflops) {
      if (gflops == 0) return;
      peaks_.Add({{"device", traits.name}, {"type", type}}, gflops * kGiga);
    };
    add("f64", traits.f64_gflops);
    add("f32", traits.f32_gflops);
    add("tf32", traits.tf32_gflops);
    add("half", traits.half_gflops);
    add("byte", traits.byte_gflops);
  }

  void AddHeld(const MetricLabels& device, const MemoryBytes& held) {
    const auto add = [&](const char* kind, std::uint64_t bytes) {
      held_.Add(Labels(device, "kind", kind), static_cast<double>(bytes));
    };
    add("device", held.device);
    add("page_locked", held.small + held.large);
    add("host", held.ordinary);
  }

  void AddQueue(const MetricLabels& device, const SchedulerStatistics& statistics) {
    queued_.Add(device, static_cast<double>(statistics.queued.jobs));
    queued_bytes_.Add(device, static_cast<double>(statistics.queued.bytes));
    queued_rows_.Add(device, static_cast<double>(statistics.queued.rows));
    backlog_.Add(device, statistics.backlog_us * kSecondsPerUs);
    limit_.Add(device, statistics.queue_limit_us * kSecondsPerUs);
    for (std::size_t form = 0; form < kBatchFormCount; ++form) {
      const MetricLabels labels = Labels(device, "form", kFormNames[form]);
      launches_.Add(labels, static_cast<double>(statistics.launches[form].launches));
      launched_.Add(labels, static_cast<double>(statistics.launches[form].jobs));
    }
    for (const auto& [kernel, launches] : statistics.by_kernel) {
      const MetricLabels of_kernel =
          Labels(device, "kernel", kernel == nullptr ? kOther : kernel->traits().name);
      for (std::size_t form = 0; form < kBatchFormCount; ++form) {
        if (launches[form] == 0) continue;
        by_kernel_.Add(Labels(of_kernel, "form", kFormNames[form]),
                       static_cast<double>(launches[form]));
      }
    }
    batch_requests_.samples.push_back({device, 0, BucketsOf(statistics.batch_requests)});
    batch_rows_.samples.push_back({device, 0, BucketsOf(statistics.batch_rows)});
    late_.Add(Labels(device, "where", "queue"), static_cast<double>(statistics.late_in_queue));
    late_.Add(Labels(device, "where", "device"), static_cast<double>(statistics.late_on_device));
  }

  void AddAccuracy(const MetricLabels& device, const CostAccuracy& accuracy) {
    const auto add = [&](const char* name, const CostAccuracy::Part& part) {
      const MetricLabels labels = Labels(device, "part", name);
      predictions_.Add(labels, static_cast<double>(part.count));
      predicted_.Add(labels, part.predicted_us * kSecondsPerUs);
      measured_.Add(labels, part.measured_us * kSecondsPerUs);
      errors_.Add(labels, part.absolute_relative_errors);
    };
    add("all", accuracy.device);
    add("copy_in", accuracy.copy_in);
    add("compute", accuracy.compute);
    add("copy_out", accuracy.copy_out);
  }

  MetricFamily info_ = Family("gemmd_device", MetricType::kInfo, "", "The devices that compute");
  MetricFamily peaks_ =
      Gauge("gemmd_device_peak_flops", "", "Operations a second that predictions start from");
  MetricFamily memory_ = Gauge("gemmd_device_memory_bytes", "bytes",
                               "The memory that the server manages, by what holds it");
  MetricFamily pinned_ = Gauge("gemmd_pinned_memory_bytes", "bytes",
                               "Page-locked host memory of the device, by what holds it");
  MetricFamily held_ = Gauge("gemmd_request_memory_bytes", "bytes",
                             "What products under way hold, unread answers included, by kind");
  MetricFamily queued_ = Gauge("gemmd_queue_requests", "", "Products that wait for the device");
  MetricFamily queued_bytes_ = Gauge("gemmd_queue_bytes", "bytes", "Host memory that they hold");
  MetricFamily queued_rows_ = Gauge("gemmd_queue_rows", "", "Rows of their results");
  MetricFamily backlog_ = Gauge("gemmd_queue_backlog_seconds", "seconds",
                                "Predicted time until all that was let in is done");
  MetricFamily limit_ = Gauge("gemmd_queue_limit_seconds", "seconds",
                              "What may be predicted to wait before products are refused");
  MetricFamily launches_ = Counter("gemmd_launches", "", "Launches begun, by their form");
  MetricFamily launched_ =
      Counter("gemmd_launched_requests", "", "Products that they served; slices count each");
  MetricFamily by_kernel_ =
      Counter("gemmd_kernel_launches", "", "Launches begun, by kernel and form");
  MetricFamily batch_requests_ =
      Family("gemmd_batch_requests", MetricType::kHistogram, "", "Products that one launch served");
  MetricFamily batch_rows_ = Family("gemmd_batch_rows", MetricType::kHistogram, "",
                                    "Rows of the results that one launch computed");
  MetricFamily late_ = Counter("gemmd_requests_late", "",
                               "Products in the queue or on the device when their deadline passed");
  MetricFamily predictions_ =
      Counter("gemmd_predictions", "", "Launches whose time was predicted and measured");
  MetricFamily predicted_ =
      Counter("gemmd_predicted_seconds", "seconds", "What they were predicted to take");
  MetricFamily measured_ = Counter("gemmd_measured_seconds", "seconds", "What they took");
  MetricFamily errors_ = Counter("gemmd_prediction_relative_errors", "",
                                 "The sum of |predicted - measured| / measured over them");
};

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

void AddGpus(const GpuSensors& sensors, Families* families) {
  MetricFamily clock = Gauge("gemmd_gpu_clock_hertz", "hertz", "The clock of a GPU's part");
  MetricFamily power = Gauge("gemmd_gpu_power_watts", "watts", "What the GPU draws");
  MetricFamily limit = Gauge("gemmd_gpu_power_limit_watts", "watts", "What it may draw");
  MetricFamily energy =
      Counter("gemmd_gpu_energy_joules", "joules", "What it drew since its driver was loaded");
  MetricFamily heat = Gauge("gemmd_gpu_temperature_celsius", "celsius", "The GPU's temperature");
  MetricFamily use =
      Gauge("gemmd_gpu_utilization_ratio", "ratio", "Of the time, with a kernel on the GPU");
  MetricFamily ecc =
      Counter("gemmd_gpu_ecc_errors", "", "Errors of memory since its driver was loaded");
  MetricFamily slow = Gauge("gemmd_gpu_slowed", "", "1 while the clock is held down, by the cause");
  for (const auto& [device, reading] : sensors.readings()) {
    const auto add = [&device = device](MetricFamily* family, const auto& value,
                                        const char* label = nullptr, const char* name = nullptr) {
      if (!value.has_value()) return;
      MetricLabels labels = {{"device", device}};
      if (label != nullptr) labels.emplace_back(label, name);
      family->Add(std::move(labels), static_cast<double>(*value));
    };
    add(&clock, reading.sm_hertz, "part", "sm");
    add(&clock, reading.memory_hertz, "part", "memory");
    add(&power, reading.power_watts);
    add(&limit, reading.power_limit_watts);
    add(&energy, reading.energy_joules);
    add(&heat, reading.temperature_celsius);
    add(&use, reading.utilization);
    add(&ecc, reading.corrected_errors, "kind", "corrected");
    add(&ecc, reading.uncorrected_errors, "kind", "uncorrected");
    add(&slow, reading.slowed_by_heat, "cause", "heat");
    add(&slow, reading.slowed_by_power, "cause", "power");
  }
  for (MetricFamily* each : {&clock, &power, &limit, &energy, &heat, &use, &ecc, &slow}) {
    families->push_back(std::move(*each));
  }
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
  constexpr std::size_t kEachTenant = 6;
  constexpr std::size_t kEachDevice =
      64 + 2 * kSizeSeries + (SchedulerStatistics::kKernels + 1) * kBatchFormCount;
  return kSingle + kCodes + kRefusalCauses + (1 + kStageCount) * kDurationSeries +
         kEachKernel * (Statistics::kKernels + 1) + kEachTenant * (Statistics::kTenants + 1) +
         devices * kEachDevice;
}

std::vector<MetricFamily> CollectMetrics(const MetricSources& sources) {
  Families families;
  AddProcess(sources.certificate_expiry(), &families);
  AddRequests(*sources.statistics, *sources.router, &families);
  AddByName(*sources.statistics, sources.gpus != nullptr, &families);
  DeviceFamilies devices;
  for (const ServedDevice& each : sources.router->devices()) {
    devices.Add(each, sources.admission->HeldOf(each.device));
  }
  devices.MoveTo(&families);
  AddStore(sources.store->statistics(), &families);
  AddHost(sources, &families);
  AddVerification(sources.verifier->statistics(), &families);
  AddTuning(*sources.tuner, sources.measured_plans(), &families);
  if (sources.tracer != nullptr) AddTraces(*sources.tracer, &families);
  if (sources.gpus != nullptr) AddGpus(*sources.gpus, &families);
  return families;
}

}  // namespace gemmd
