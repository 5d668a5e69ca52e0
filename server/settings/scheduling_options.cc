#include "server/settings/scheduling_options.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/time/units.h"

namespace gemmd {
namespace {}  // namespace

absl::StatusOr<SchedulerOptions> SchedulingOptions(const config::Scheduling& config) {
  SchedulerOptions options;
  options.bounds.jobs = static_cast<std::size_t>(config.max_queued_requests());
  options.bounds.bytes = static_cast<std::uint64_t>(config.max_queued_bytes());
  options.bounds.rows = config.max_queued_rows();
  options.bounds.us = static_cast<double>(config.max_queued_ms()) * 1e3;
  options.limit.max_us = options.bounds.us;
  options.limit.min_us = std::min(options.limit.min_us, options.bounds.us);
  options.tenant_percent = static_cast<int>(config.tenant_percent());
  options.slice_us = static_cast<double>(config.slice_us());
  QueuePolicy& queue = options.queue;
  queue.ageing = config.ageing_ms() * kMillisecond;
  queue.max_rows = config.batch_rows();
  queue.max_jobs = static_cast<std::size_t>(config.batch_requests());
  queue.max_us = options.slice_us;
  queue.delay = config.batch_delay_us() * kMicrosecond;
  for (const absl::string_view each :
       absl::StrSplit(config.tenant_weights(), ',', absl::SkipEmpty())) {
    // A name that a certificate gave may have anything in it, "=" too.
    const std::size_t equals = each.rfind('=');
    double weight = 0;
    if (equals == absl::string_view::npos || !absl::SimpleAtod(each.substr(equals + 1), &weight) ||
        !(weight > 0) || weight > 1e6) {
      return absl::InvalidArgumentError(
          absl::StrCat("scheduling.tenant_weights has \"", each,
                       "\"; it takes NAME=WEIGHT, a number above 0 and at most 1e6"));
    }
    queue.tenant_weights[std::string(each.substr(0, equals))] = weight;
  }
  return options;
}

std::set<std::string> NamesOf(absl::string_view list) {
  return absl::StrSplit(list, ',', absl::SkipWhitespace());
}

}  // namespace gemmd
