#include "server/scheduling/router.h"

#include <algorithm>
#include <utility>

namespace gemmd {

std::vector<ServedDevice> Router::ByPreference(const Device* holder) const {
  if (devices_.size() == 1) return devices_;
  // Read once each: the backlogs change while they are compared.
  std::vector<std::pair<double, ServedDevice>> loads;
  for (const ServedDevice& each : devices_) {
    const double backlog_us = each.scheduler->predicted_backlog_us();
    loads.emplace_back(each.device == holder ? -1 : backlog_us, each);
  }
  std::stable_sort(loads.begin(), loads.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<ServedDevice> order;
  order.reserve(loads.size());
  for (const auto& [backlog_us, each] : loads) order.push_back(each);
  return order;
}

void Router::Cancel(std::uint64_t id) const {
  for (const ServedDevice& each : devices_) each.scheduler->Cancel(id);
}

bool Router::WaitUntilIdle(int timeout_ms) const {
  return std::all_of(devices_.begin(), devices_.end(), [timeout_ms](const ServedDevice& each) {
    return each.scheduler->WaitUntilIdle(timeout_ms);
  });
}

std::size_t Router::unfinished_jobs() const {
  std::size_t jobs = 0;
  for (const ServedDevice& each : devices_) jobs += each.scheduler->unfinished_jobs();
  return jobs;
}

std::uint64_t Router::requests() const {
  std::uint64_t requests = 0;
  for (const ServedDevice& each : devices_) requests += each.scheduler->statistics().requests;
  return requests;
}

QueueUse Router::queued() const {
  QueueUse sum;
  for (const ServedDevice& each : devices_) {
    const QueueUse use = each.scheduler->queued();
    sum.jobs += use.jobs;
    sum.bytes += use.bytes;
    sum.rows += use.rows;
    sum.us += use.us;
  }
  return sum;
}

}  // namespace gemmd
