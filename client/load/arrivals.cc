#include "client/load/arrivals.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/time/units.h"
#include "client/load/random.h"

namespace gemmd::load {
namespace {

class ConstantArrivals final : public Arrivals {
 public:
  explicit ConstantArrivals(double rate_per_s) : period_ns_(kSecond / rate_per_s) {}
  // Multiplied rather than summed up, so that rounding does not drift.
  std::optional<TimeNs> Next() override {
    return std::llround(static_cast<double>(count_++) * period_ns_);
  }

 private:
  const double period_ns_;
  std::int64_t count_ = 0;
};

class PoissonArrivals final : public Arrivals {
 public:
  PoissonArrivals(double rate_per_s, std::uint64_t seed)
      : mean_ns_(kSecond / rate_per_s), random_(seed) {}
  std::optional<TimeNs> Next() override {
    time_ns_ += mean_ns_ * random_.Exponential();
    return std::llround(time_ns_);
  }

 private:
  const double mean_ns_;
  Random random_;
  double time_ns_ = 0;
};

class ReplayArrivals final : public Arrivals {
 public:
  explicit ReplayArrivals(std::vector<TimeNs> times) : times_(std::move(times)) {}
  std::optional<TimeNs> Next() override {
    if (position_ == times_.size()) return std::nullopt;
    return times_[position_++];
  }

 private:
  const std::vector<TimeNs> times_;
  std::size_t position_ = 0;
};

}  // namespace

std::unique_ptr<Arrivals> MakeArrivals(const ArrivalPlan& plan) {
  switch (plan.kind) {
    case ArrivalKind::kConstant:
      return std::make_unique<ConstantArrivals>(plan.rate_per_s);
    case ArrivalKind::kPoisson:
      return std::make_unique<PoissonArrivals>(plan.rate_per_s, plan.seed);
    case ArrivalKind::kReplay:
      break;
  }
  return std::make_unique<ReplayArrivals>(plan.replay_ns);
}

absl::StatusOr<std::vector<TimeNs>> ParseSchedule(absl::string_view text) {
  std::vector<TimeNs> times;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    double seconds = 0;
    // A year bounds it, so that nanoseconds fit.
    if (!absl::SimpleAtod(line, &seconds) || !(seconds >= 0 && seconds <= 31536000)) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, " is \"", line,
                                                     "\"; it must be seconds from 0 to 31536000"));
    }
    const TimeNs time = std::llround(seconds * kSecond);
    if (!times.empty() && time < times.back()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " is ", line, ", which is before the line above it"));
    }
    times.push_back(time);
  }
  if (times.empty()) return absl::InvalidArgumentError("there is no time in it");
  return times;
}

}  // namespace gemmd::load
