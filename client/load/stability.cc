#include "client/load/stability.h"

#include <cmath>

#include "base/time/units.h"
#include "client/load/percentile.h"

namespace gemmd::load {
namespace {

template <typename Field>
bool Agree(const std::vector<WindowStatistics>& windows, double bound, Field field) {
  double mean = 0;
  for (auto window = windows.end() - kAgreeing; window != windows.end(); ++window) {
    mean += field(*window) / kAgreeing;
  }
  for (auto window = windows.end() - kAgreeing; window != windows.end(); ++window) {
    if (window->ok == 0 || std::abs(field(*window) - mean) > bound * mean) return false;
  }
  return true;
}

}  // namespace

WindowStatistics WindowOf(const std::vector<Sample>& samples, TimeNs begin_ns, TimeNs end_ns) {
  std::vector<TimeNs> latencies;
  for (const Sample& sample : samples) {
    if (sample.ok() && sample.completed_ns >= begin_ns && sample.completed_ns < end_ns) {
      latencies.push_back(sample.latency_ns());
    }
  }
  WindowStatistics window;
  window.ok = latencies.size();
  window.requests_per_s =
      static_cast<double>(window.ok) * kSecond / static_cast<double>(end_ns - begin_ns);
  window.p50_us = static_cast<double>(SelectPercentile(latencies, 50)) / 1e3;
  return window;
}

bool LastWindowsAgree(const std::vector<WindowStatistics>& windows, double bound) {
  if (windows.size() < kAgreeing) return false;
  return Agree(windows, bound, [](const auto& window) { return window.requests_per_s; }) &&
         Agree(windows, bound, [](const auto& window) { return window.p50_us; });
}

}  // namespace gemmd::load
