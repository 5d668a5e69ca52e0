// Launches batches of small f64 products in the emulator without the registry, so that changed
// copies of sources can stand in for them. Included after launch.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/emulator/session.h"
#include "tests/kernels/emulator/shape.h"

namespace gemmd::testing {

// Five products, their planes one behind the other.
class DirectBatch {
 public:
  DirectBatch(const Shape& shape, bool transpose_a, bool transpose_b)
      : problem_(MakeProblem(shape.m, shape.n, shape.k, DataType::kF64, DataType::kF64, transpose_a,
                             transpose_b)) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    for (std::vector<double>* plane : {&a_, &b_}) {
      const MatrixLayout& layout = plane == &a_ ? problem_.a : problem_.b;
      plane->resize(kProducts * layout.size_bytes() / 8 + 1);
      for (double& x : *plane) x = normal(random);
    }
    d_.resize(kProducts * problem_.d.size_bytes() / 8 + 1);
  }

  // The report's message, "wrong bits", or nothing where every D is right.
  std::string Run(const emulator::Options& options) {
    std::vector<Arguments> batch(kProducts);
    for (std::size_t i = 0; i < kProducts; ++i) {
      batch[i].a = A(i);
      batch[i].b = B(i);
      batch[i].d = d_.data() + Aligned(d_) + i * problem_.d.size_bytes() / 8;
    }
    emulator::Session session;
    session.options = options;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status =
        hopper::small::LaunchBatch<hopper::small::kF64Numbers>(problem_, batch, target);
    if (!session.report.ok()) return session.report.message;
    if (!status.ok()) return status.ToString();
    return IsRight() ? "" : "wrong bits";
  }

 private:
  static constexpr std::size_t kProducts = 5;

  // Planes start at multiples of 16 bytes.
  static std::size_t Aligned(const std::vector<double>& plane) {
    return reinterpret_cast<std::uintptr_t>(plane.data()) % 16 / 8;
  }
  const double* A(std::size_t i) const {
    return a_.data() + Aligned(a_) + i * problem_.a.size_bytes() / 8;
  }
  const double* B(std::size_t i) const {
    return b_.data() + Aligned(b_) + i * problem_.b.size_bytes() / 8;
  }

  bool IsRight() const {
    for (std::size_t i = 0; i < kProducts; ++i) {
      const double* const d = d_.data() + Aligned(d_) + i * problem_.d.size_bytes() / 8;
      for (std::int64_t row = 0; row < problem_.m; ++row) {
        for (std::int64_t column = 0; column < problem_.n; ++column) {
          double sum = 0;
          for (std::int64_t k = 0; k < problem_.k; ++k) {
            sum = std::fma(
                A(i)[row * problem_.a_row_stride() + k * problem_.a_inner_stride()],
                B(i)[k * problem_.b_inner_stride() + column * problem_.b_column_stride()], sum);
          }
          if (d[row * problem_.n + column] != sum) return false;
        }
      }
    }
    return true;
  }

  Problem problem_;
  std::vector<double> a_;
  std::vector<double> b_;
  std::vector<double> d_;
};

inline std::string RunDirect(const Shape& shape, bool transpose_a, bool transpose_b,
                             const emulator::Options& options) {
  return DirectBatch(shape, transpose_a, transpose_b).Run(options);
}

}  // namespace gemmd::testing
