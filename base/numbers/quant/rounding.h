// An encoder's rounding: to nearest, or by the random bits of a seed.
#pragma once

#include <cstdint>

namespace gemmd {

struct Rounding {
  // To nearest, ties to even, or up with the probability that small_float.h states.
  bool is_stochastic = false;
  std::uint64_t seed = 0;
};

// 32 bits for one element of a matrix, by the seed and the element's index alone: neither the order
// in which elements are encoded nor how they lie in memory matters. They are the upper half of
// output `index` of the generator SplitMix64 that starts at `seed` (Steele, Lea and Flood, "Fast
// Splittable Pseudorandom Number Generators", OOPSLA 2014, figures 15 and 16).
constexpr std::uint32_t RandomBits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

}  // namespace gemmd
