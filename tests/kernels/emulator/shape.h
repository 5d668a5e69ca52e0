// The shape of a product.
#pragma once

#include <cstdint>
#include <ostream>

namespace gemmd::testing {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.m << "x" << shape.n << "x" << shape.k;
}

}  // namespace gemmd::testing
