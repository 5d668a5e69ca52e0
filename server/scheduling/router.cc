#include "server/scheduling/router.h"

#include <algorithm>

namespace gemmd {

std::vector<RoutedDevice> Router::ByPreference(absl::Span<const Device* const> holders) const {
  const bool has_choice = devices_.size() > 1;
  std::vector<RoutedDevice> order;
  order.reserve(devices_.size());
  for (const ServedDevice& each : devices_) {
    RoutedDevice routed{each};
    if (has_choice) {
      // Read once each: the backlogs change while they are compared.
      routed.expected_backlog_us = each.scheduler->expected_backlog_us();
      routed.submitted_backlog_us = each.scheduler->submitted_backlog_us();
    }
    routed.is_holder = std::find(holders.begin(), holders.end(), each.device) != holders.end();
    order.push_back(routed);
  }
  const Device* const first_holder = holders.empty() ? nullptr : holders.front();
  const auto cost_us = [first_holder](const RoutedDevice& routed) {
    const bool is_behind = routed.is_holder && routed.device != first_holder;
    return routed.expected_backlog_us + (is_behind ? kHeadStartUs : 0);
  };
  std::stable_sort(order.begin(), order.end(), [&](const RoutedDevice& x, const RoutedDevice& y) {
    if (x.is_holder != y.is_holder) return x.is_holder;
    return cost_us(x) < cost_us(y);
  });
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
