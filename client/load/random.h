// Random numbers whose sequence is the same on every platform and library: a run can be
// repeated from its seed.
#pragma once

#include <cstdint>

namespace gemmd::load {

// The output function of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
// number generators"): every bit of the result depends on every bit of x.
inline std::uint64_t Mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// In [0, 1), from the upper 53 bits.
inline double ToUnit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// A sequence of Mix64 over a counter.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(Mix64(seed)) {}

  std::uint64_t Next() { return Mix64(state_++); }
  // Leaves the state as it is after so many calls of Next(). Unit() and Exponential() call it once,
  // Normal() twice.
  void Skip(std::uint64_t calls) { state_ += calls; }
  double Unit() { return ToUnit(Next()); }
  double Normal();       // mean 0, deviation 1
  double Exponential();  // mean 1

 private:
  std::uint64_t state_;
};

}  // namespace gemmd::load
