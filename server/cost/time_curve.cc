#include "server/cost/time_curve.h"

#include <algorithm>
#include <cmath>

namespace gemmd {
namespace {

constexpr int kFirstExponent = -24;  // of the first band: 2^-24 us
constexpr float kWeight = 0.125F;    // of a new basis in a band's
// Overheads of launches, copies and messages are below this, so the rest of a longer time is
// slope; unless it is so many times the basis that the operation must have been held up.
constexpr double kMostOverheadUs = 1000;
constexpr double kHeldUp = 16;
constexpr int kNeighbours = 4;  // bands on each side

std::uint64_t Bit(int band) { return std::uint64_t{1} << static_cast<unsigned>(band); }

int Highest(std::uint64_t bands) { return 63 - __builtin_clzll(bands); }
int Lowest(std::uint64_t bands) { return __builtin_ctzll(bands); }

// The least that the slope can be, by one observation alone.
double LeastSlope(double basis_us, double us) {
  const double slope = us / basis_us;
  if (slope > kHeldUp) return 1;
  return std::max(std::min(1.0, slope), (us - kMostOverheadUs) / basis_us);
}

}  // namespace

int TimeCurve::BandOf(double basis_us) {
  return std::clamp(std::ilogb(basis_us) - kFirstExponent, 0, kBands - 1);
}

void TimeCurve::SetAnchor(Band* band) {
  const RatioRange range = band->ratio.range();
  const double basis_us = std::exp2(static_cast<double>(band->log2_basis));
  band->anchor = {basis_us, basis_us * range.usual, basis_us * range.least};
}

int TimeCurve::AtMost(double basis_us) const {
  const int own = BandOf(basis_us);
  std::uint64_t among = used_ & (Bit(own) | (Bit(own) - 1));
  if ((among & Bit(own)) != 0 && At(own).anchor.basis_us > basis_us) among &= ~Bit(own);
  return among == 0 ? -1 : Highest(among);
}

int TimeCurve::Above(double basis_us) const {
  const int own = BandOf(basis_us);
  std::uint64_t among = used_ & ~(Bit(own) - 1);
  if ((among & Bit(own)) != 0 && At(own).anchor.basis_us <= basis_us) among &= ~Bit(own);
  return among == 0 ? -1 : Lowest(among);
}

TimeCurve::Anchor TimeCurve::Believed(int band) const {
  Anchor anchor = At(band).anchor;
  if (IsSettled(band)) return anchor;
  const int last = std::min(band + kNeighbours, kBands - 1);
  for (int each = std::max(band - kNeighbours, 0); each <= last; ++each) {
    if (At(each).ratio.count() < At(band).ratio.count()) continue;
    const Anchor& other = At(each).anchor;
    anchor.us = std::min(anchor.us, each > band ? other.us : other.slope() * anchor.basis_us);
  }
  anchor.least_us = std::min(anchor.least_us, anchor.us);
  return anchor;
}

double TimeCurve::Beyond(int last_band, double basis_us) const {
  const Anchor last = Believed(last_band);
  // Two sizes of which one took at least twice as long tell the slope within a factor of 2. It is
  // no steeper than the time for its size of any settled band.
  double slope = 0;
  double steepest = last.slope();
  std::uint64_t earlier = IsSettled(last_band) ? used_ & (Bit(last_band) - 1) : 0;
  while (earlier != 0) {
    const int band = Highest(earlier);
    earlier &= ~Bit(band);
    if (!IsSettled(band)) continue;
    const Anchor& from = At(band).anchor;
    steepest = std::min(steepest, from.slope());
    const bool tells = last.us >= 2 * from.us && last.basis_us >= 2 * from.basis_us;
    if (slope == 0 && tells) slope = (last.us - from.us) / (last.basis_us - from.basis_us);
  }
  if (slope > 0) return last.us + (basis_us - last.basis_us) * std::min(slope, steepest);
  const double near_basis_us = std::min(basis_us, kNear * last.basis_us);
  const double all_slope_us = last.slope() * near_basis_us;
  const double least_slope = LeastSlope(last.basis_us, last.us);
  const double least_us = last.us + (near_basis_us - last.basis_us) * least_slope;
  return std::sqrt(least_us * all_slope_us) + (basis_us - near_basis_us) * least_slope;
}

std::optional<TimeCurve::Point> TimeCurve::Predict(double basis_us) const {
  const MutexLock lock(mutex_);
  if (used_ == 0) return std::nullopt;
  const int below = AtMost(basis_us);
  const int above = Above(basis_us);
  Point point;
  // A larger size takes at least the time of a smaller one, and a smaller size at least its share
  // of the time of a larger one.
  if (below >= 0 && basis_us <= kNear * At(below).anchor.basis_us) {
    point.is_near = true;
    point.least_us = Believed(below).least_us;
  }
  if (above >= 0 && At(above).anchor.basis_us <= kNear * basis_us) {
    point.is_near = true;
    const Anchor to = Believed(above);
    point.least_us = std::max(point.least_us, to.least_us * basis_us / to.basis_us);
  }
  if (above < 0) {
    point.us = Beyond(below, basis_us);
    return point;
  }
  const Anchor to = Believed(above);
  const double all_slope_us = to.slope() * basis_us;
  if (below >= 0) {
    const Anchor from = Believed(below);
    const double part = (basis_us - from.basis_us) / (to.basis_us - from.basis_us);
    point.us = from.us + part * (to.us - from.us);
    return point;
  }
  const double most_us = to.us - (to.basis_us - basis_us) * LeastSlope(to.basis_us, to.us);
  point.us = std::sqrt(all_slope_us * std::max(most_us, all_slope_us));
  return point;
}

void TimeCurve::Observe(double basis_us, double us) {
  const int index = BandOf(basis_us);
  const auto log2_basis = static_cast<float>(std::log2(basis_us));
  const MutexLock lock(mutex_);
  Band& band = At(index);
  const float weight = band.ratio.is_empty() ? 1 : kWeight;
  band.log2_basis += weight * (log2_basis - band.log2_basis);
  band.ratio.Observe(us / basis_us);
  SetAnchor(&band);
  used_ |= Bit(index);
}

void TimeCurve::ObserveRefusal(double basis_us) {
  const int own = BandOf(basis_us);
  const MutexLock lock(mutex_);
  // All bands that its least_us may have come from.
  const int last = std::min(own + 2, kBands - 1);
  for (int band = std::max(own - 2, 0); band <= last; ++band) {
    if (At(band).ratio.is_empty()) continue;
    At(band).ratio.ObserveRefusal();
    SetAnchor(&At(band));
  }
}

}  // namespace gemmd
