// The times at which an open loop's requests are due: a schedule that the server's answers cannot
// move.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/load/clock.h"

namespace gemmd::load {

enum class ArrivalKind { kConstant, kPoisson, kReplay };

// A value: equal plans give equal schedules.
struct ArrivalPlan {
  ArrivalKind kind = ArrivalKind::kPoisson;
  double rate_per_s = 0;            // above 0, but for kReplay
  std::uint64_t seed = 1;           // kPoisson
  std::vector<TimeNs> replay_ns{};  // kReplay: since the start, ascending
};

// Not thread-safe.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  // The next request's time since the start, never before the one that came last;
  // nothing at the end of a replay.
  virtual std::optional<TimeNs> Next() = 0;
};

std::unique_ptr<Arrivals> MakeArrivals(const ArrivalPlan& plan);

// One time a line, in seconds since the start ("0.25"), ascending; empty lines and those
// that begin with # are skipped. INVALID_ARGUMENT names the line.
absl::StatusOr<std::vector<TimeNs>> ParseSchedule(absl::string_view text);

}  // namespace gemmd::load
