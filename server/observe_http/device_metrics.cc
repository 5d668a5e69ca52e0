#include "server/observe_http/device_metrics.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

namespace gemmd {
namespace {

constexpr double kSecondsPerUs = 1e-6;

MetricBuckets BucketsOf(const SchedulerStatistics::Sizes& sizes) {
  MetricBuckets buckets;
  for (std::size_t i = 0; i < SchedulerStatistics::Sizes::kBounds; ++i) {
    buckets.bounds.push_back(static_cast<double>(std::uint64_t{1} << i));
  }
  buckets.counts.assign(sizes.counts.begin(), sizes.counts.end());
  buckets.sum = static_cast<double>(sizes.sum);
  return buckets;
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

}  // namespace

void AddDevices(const Router& router, const Admission& admission, Families* families) {
  DeviceFamilies devices;
  for (const ServedDevice& each : router.devices()) {
    devices.Add(each, admission.HeldOf(each.device));
  }
  devices.MoveTo(families);
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

}  // namespace gemmd
