#include "client/load/random.h"

#include <cmath>

namespace gemmd::load {

// Box and Muller's transform, one of its two values.
double Random::Normal() {
  const double radius = std::sqrt(-2 * std::log(1 - Unit()));
  return radius * std::cos(6.283185307179586 * Unit());
}

double Random::Exponential() { return -std::log(1 - Unit()); }

}  // namespace gemmd::load
