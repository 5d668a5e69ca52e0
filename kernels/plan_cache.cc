#include "kernels/plan_cache.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file/write_file.h"
#include "base/process/read_file.h"
#include "nlohmann/json.hpp"

namespace gemmd {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

struct ConfigField {
  const char* name;
  int Config::*value;
};

constexpr ConfigField kConfigFields[] = {{"tile_m", &Config::tile_m},
                                         {"tile_n", &Config::tile_n},
                                         {"tile_k", &Config::tile_k},
                                         {"stages", &Config::stages},
                                         {"cluster_m", &Config::cluster_m},
                                         {"cluster_n", &Config::cluster_n},
                                         {"warps", &Config::warps},
                                         {"raster_group", &Config::raster_group},
                                         {"raster_order", &Config::raster_order},
                                         {"by_place", &Config::by_place},
                                         {"split_k", &Config::split_k},
                                         {"threads", &Config::threads},
                                         {"algorithm", &Config::algorithm}};
constexpr char kWorkspaceBytes[] = "workspace_bytes";

absl::Status Fault(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(field, " ", what));
}

// A field of an object; null where it is missing.
const json* Field(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

absl::Status Read(const json& object, const std::string& path, const char* name,
                  std::string* value) {
  const json* field = Field(object, name);
  const std::string full = absl::StrCat(path, name);
  if (field == nullptr) return Fault(full, "is missing");
  if (!field->is_string())
    return Fault(full, absl::StrCat("is ", field->dump(), "; it must be text"));
  *value = field->get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadConfig(const json& plan, const std::string& path, Config* config) {
  const json* object = Field(plan, "config");
  const std::string full = absl::StrCat(path, "config");
  if (object == nullptr) return Fault(full, "is missing");
  if (!object->is_object()) return Fault(full, "must be an object");
  for (const auto& [name, value] : object->items()) {
    const std::string field = absl::StrCat(full, ".", name);
    const bool is_bytes = name == kWorkspaceBytes;
    const std::uint64_t limit =
        is_bytes ? std::uint64_t{1} << 40 : std::uint64_t{std::numeric_limits<std::int32_t>::max()};
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > limit) {
      return Fault(field, absl::StrCat("is ", value.dump(), "; it must be 0 to ", limit));
    }
    if (is_bytes) {
      config->workspace_bytes = value.get<std::uint64_t>();
      continue;
    }
    bool is_known = false;
    for (const ConfigField& known : kConfigFields) {
      if (name != known.name) continue;
      config->*known.value = value.get<int>();
      is_known = true;
    }
    if (!is_known) return Fault(field, "is no field of a config");
  }
  return absl::OkStatus();
}

absl::Status ReadPlan(const json& object, const std::string& path, std::string* key,
                      MeasuredPlan* plan) {
  if (!object.is_object()) return Fault(path, "must be an object");
  const std::string prefix = absl::StrCat(path, ".");
  if (absl::Status s = Read(object, prefix, "key", key); !s.ok()) return s;
  if (absl::Status s = Read(object, prefix, "kernel", &plan->kernel); !s.ok()) return s;
  if (absl::Status s = ReadConfig(object, prefix, &plan->config); !s.ok()) return s;
  const json* us = Field(object, "measured_us");
  if (us == nullptr) return Fault(absl::StrCat(prefix, "measured_us"), "is missing");
  if (!us->is_number() || !(us->get<double>() > 0) || !std::isfinite(us->get<double>())) {
    return Fault(absl::StrCat(prefix, "measured_us"),
                 absl::StrCat("is ", us->dump(), "; it must be a number above 0"));
  }
  plan->measured_us = us->get<double>();
  return absl::OkStatus();
}

absl::Status CheckHead(const json& file, absl::string_view version) {
  if (!file.is_object()) return Fault("the file", "must be an object");
  const json* format = Field(file, "format");
  if (format == nullptr) return Fault("format", "is missing");
  if (*format != kFormat) {
    return Fault("format", absl::StrCat("is ", format->dump(), "; it must be ", kFormat));
  }
  std::string measured_by;
  if (absl::Status s = Read(file, "", "version", &measured_by); !s.ok()) return s;
  if (measured_by != version) {
    return absl::FailedPreconditionError(absl::StrCat(
        "version is \"", measured_by, "\", and this is \"", version, "\": measure again"));
  }
  const json* plans = Field(file, "plans");
  if (plans == nullptr || !plans->is_array()) return Fault("plans", "must be a list");
  if (plans->size() > PlanCache::kMaxPlans) {
    return Fault("plans", absl::StrCat("has ", plans->size(), " entries; at most ",
                                       PlanCache::kMaxPlans, " are taken"));
  }
  return absl::OkStatus();
}

absl::Status Named(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

bool operator==(const MeasuredPlan& x, const MeasuredPlan& y) {
  return x.kernel == y.kernel && x.config == y.config && x.measured_us == y.measured_us;
}

std::string PlanKey(const Problem& problem, const DeviceTraits& device) {
  const Epilogue& e = problem.epilogue;
  std::string key =
      absl::StrCat(device.model, ": ", problem.m, "x", problem.n, "x", problem.k, " ",
                   Name(problem.a.type), ",", Name(problem.b.type), "->", Name(problem.d.type), " ",
                   problem.a_is_k_major() ? "k" : "m", problem.b_is_k_major() ? "k" : "n",
                   " acc=", Name(problem.accumulate), " ", Name(problem.determinism));
  if (problem.d.order == Order::kColumnMajor) absl::StrAppend(&key, " d=column_major");
  if (problem.a_scaling != Scaling::kNone || problem.b_scaling != Scaling::kNone) {
    absl::StrAppend(&key, " scales=", Name(problem.a_scaling), ",", Name(problem.b_scaling));
  }
  if (problem.b_packing != Packing::kNone) absl::StrAppend(&key, " packed");
  if (e.beta != 0) absl::StrAppend(&key, " c=", Name(problem.c.order));
  if (e.has_bias) absl::StrAppend(&key, " bias");
  if (e.activation != Activation::kNone) absl::StrAppend(&key, " ", Name(e.activation));
  return key;
}

PlanCache::PlanCache(const PlanCache& other) : shipped_(other.shipped_), plans_(other.plans()) {}

PlanCache& PlanCache::operator=(const PlanCache& other) {
  if (this == &other) return *this;
  Plans copy = other.plans();
  const MutexLock lock(mutex_);
  shipped_ = other.shipped_;
  plans_ = std::move(copy);
  ++revision_;
  return *this;
}

PlanCache::Plans PlanCache::plans() const {
  const MutexLock lock(mutex_);
  return plans_;
}

std::optional<MeasuredPlan> PlanCache::Find(const Problem& problem,
                                            const DeviceTraits& device) const {
  if (size() == 0 && shipped_ == nullptr) return std::nullopt;  // costs no key
  return Find(PlanKey(problem, device));
}

std::optional<MeasuredPlan> PlanCache::Find(const std::string& key) const {
  {
    const MutexLock lock(mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
  }
  return shipped_ == nullptr ? std::nullopt : shipped_->Find(key);
}

absl::Status PlanCache::Insert(const Problem& problem, const DeviceTraits& device,
                               MeasuredPlan plan) {
  const std::string key = PlanKey(problem, device);
  const MutexLock lock(mutex_);
  if (plans_.size() >= kMaxPlans && plans_.find(key) == plans_.end()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the plan cache holds ", kMaxPlans, " plans, which is its limit"));
  }
  plans_[key] = std::move(plan);
  ++revision_;
  return absl::OkStatus();
}

std::size_t PlanCache::size() const {
  const MutexLock lock(mutex_);
  return plans_.size();
}

std::string PlanCache::ToJson(absl::string_view version) const {
  json file;
  file["format"] = kFormat;
  file["version"] = std::string(version);
  file["plans"] = json::array();
  for (const auto& [key, plan] : plans()) {
    json config = json::object();
    for (const ConfigField& field : kConfigFields) {
      if (plan.config.*field.value != 0) config[field.name] = plan.config.*field.value;
    }
    if (plan.config.workspace_bytes != 0) config[kWorkspaceBytes] = plan.config.workspace_bytes;
    file["plans"].push_back({{"key", key},
                             {"kernel", plan.kernel},
                             {"config", config},
                             {"measured_us", plan.measured_us}});
  }
  return file.dump(1) + "\n";
}

absl::StatusOr<PlanCache> PlanCache::FromJson(absl::string_view text, absl::string_view version) {
  json file;
  try {
    file = json::parse(text.begin(), text.end());
  } catch (const json::exception& error) {
    // The library's message has line and column. A number may be out of range, too.
    return absl::InvalidArgumentError(error.what());
  }
  if (absl::Status s = CheckHead(file, version); !s.ok()) return s;
  Plans plans;
  std::size_t index = 0;
  for (const json& object : file["plans"]) {
    const std::string path = absl::StrCat("plans[", index++, "]");
    std::string key;
    MeasuredPlan plan;
    if (absl::Status s = ReadPlan(object, path, &key, &plan); !s.ok()) return s;
    if (!plans.emplace(key, plan).second) {
      return Fault(absl::StrCat(path, ".key"), absl::StrCat("is \"", key, "\" a second time"));
    }
  }
  PlanCache cache;
  {
    const MutexLock lock(cache.mutex_);
    cache.plans_ = std::move(plans);
  }
  return cache;
}

absl::Status PlanCache::Save(const std::string& path, absl::string_view version) const {
  const absl::Status written = WriteFile(path, {ToJson(version)});
  if (written.ok() || absl::IsNotFound(written)) return written;
  return absl::UnavailableError(written.message());
}

absl::StatusOr<PlanCache> PlanCache::Load(const std::string& path, absl::string_view version) {
  constexpr std::size_t kMostBytes = 64 << 20;
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kMostBytes);
  if (!text.ok()) return Named(path, text.status());
  absl::StatusOr<PlanCache> cache = FromJson(*text, version);
  if (!cache.ok()) return Named(path, cache.status());
  return cache;
}

}  // namespace gemmd
