// Makes families of metrics, for the files that collect them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server/observe/exposition.h"

namespace gemmd {

// The label of what has no series of its own. No kernel and no tenant is called so
// (Tenant::Named()).
inline constexpr char kOther[] = "(other)";

using Families = std::vector<MetricFamily>;

inline MetricFamily Family(std::string name, MetricType type, std::string unit, std::string help) {
  MetricFamily family;
  family.name = std::move(name);
  family.type = type;
  family.unit = std::move(unit);
  family.help = std::move(help);
  return family;
}

inline MetricFamily Counter(std::string name, std::string unit, std::string help) {
  return Family(std::move(name), MetricType::kCounter, std::move(unit), std::move(help));
}

inline MetricFamily Gauge(std::string name, std::string unit, std::string help) {
  return Family(std::move(name), MetricType::kGauge, std::move(unit), std::move(help));
}

template <typename T>
inline MetricFamily With(MetricFamily family, T value) {
  family.Add({}, static_cast<double>(value));
  return family;
}

}  // namespace gemmd
