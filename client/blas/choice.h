// The times of products on the server: as it estimates them, corrected by those that were measured.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gemmd::blas {

// The parts of a real product that its time there depends on.
struct Shape {
  bool is_double = false;
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t count = 1;  // of a batch

  bool operator==(const Shape& other) const;
};

// Not thread-safe.
class Choice {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The estimate of that shape, if it was told less than ten seconds ago: queues change.
  std::optional<double> Estimated(const Shape& shape, TimePoint now) const;
  // The estimate of that shape however old it is, for Took(): a product may take longer than ten
  // seconds, and those are to be learned from most of all.
  std::optional<double> LastEstimated(const Shape& shape) const;
  void Told(const Shape& shape, double us, TimePoint now);

  // The estimate, corrected by what products of about those operations took.
  double ThereUs(double flops, double estimated_us) const;
  // A product took so long there.
  void Took(double flops, double estimated_us, double us);
  // A product was computed here because the server is slower. Corrections move back a little, so
  // that a slow hour is forgotten.
  void Stayed(double flops);

 private:
  struct Entry {
    Shape shape;
    double us = 0;
    TimePoint told{};
  };
  static constexpr std::size_t kEntries = 64;
  // Products of up to twice the operations share a correction.
  static constexpr std::size_t kClasses = 64;

  static std::size_t PlaceOf(const Shape& shape);
  static std::size_t ClassOf(double flops);

  std::array<Entry, kEntries> entries_;
  std::array<double, kClasses> log_corrections_{};
};

}  // namespace gemmd::blas
