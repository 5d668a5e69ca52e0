#include "client/blas/choice.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace gemmd::blas {
namespace {

constexpr std::chrono::seconds kLifetime(10);
constexpr double kWeight = 0.25;     // of a measurement
constexpr double kForgotten = 0.02;  // of a correction, for each product that stayed here
constexpr double kMostLog = 4;       // a factor of 55

auto FieldsOf(const Shape& shape) {
  return std::tie(shape.is_double, shape.transpose_a, shape.transpose_b, shape.m, shape.n, shape.k);
}

}  // namespace

bool Shape::operator==(const Shape& other) const { return FieldsOf(*this) == FieldsOf(other); }

std::size_t Choice::PlaceOf(const Shape& shape) {
  std::uint64_t hash =
      (shape.is_double ? 1 : 0) + (shape.transpose_a ? 2 : 0) + (shape.transpose_b ? 4 : 0);
  for (const std::int64_t side : {shape.m, shape.n, shape.k, shape.count}) {
    // Fibonacci hashing: the upper bits depend on all of the lower ones.
    hash = (hash ^ static_cast<std::uint64_t>(side)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
  }
  return hash % kEntries;
}

std::size_t Choice::ClassOf(double flops) {
  return static_cast<std::size_t>(std::clamp(std::ilogb(flops), 0, int{kClasses} - 1));
}

std::optional<double> Choice::Estimated(const Shape& shape, TimePoint now) const {
  const Entry& entry = entries_[PlaceOf(shape)];
  if (!(entry.shape == shape) || now - entry.told >= kLifetime) return std::nullopt;
  return entry.us;
}

std::optional<double> Choice::LastEstimated(const Shape& shape) const {
  const Entry& entry = entries_[PlaceOf(shape)];
  if (!(entry.shape == shape)) return std::nullopt;
  return entry.us;
}

void Choice::Told(const Shape& shape, double us, TimePoint now) {
  entries_[PlaceOf(shape)] = {shape, us, now};
}

double Choice::ThereUs(double flops, double estimated_us) const {
  return estimated_us * std::exp(log_corrections_[ClassOf(flops)]);
}

void Choice::Took(double flops, double estimated_us, double us) {
  if (!(estimated_us > 0) || !(us > 0)) return;
  double& correction = log_corrections_[ClassOf(flops)];
  const double measured = std::clamp(std::log(us / estimated_us), -kMostLog, kMostLog);
  correction += kWeight * (measured - correction);
}

void Choice::Stayed(double flops) { log_corrections_[ClassOf(flops)] *= 1 - kForgotten; }

}  // namespace gemmd::blas
