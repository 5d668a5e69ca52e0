// Checks that products that come back under load are right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/sync/mutex.h"
#include "client/matmul.h"

namespace gemmd::load {

// Knows what the product of one A and one B must be. Thread-safe.
//
// Freivalds' check: D x against A (B x) for vectors x of random signs, in binary64, row by
// row, within the error that the accumulation's and the result's types allow:
//
//     (K + 8) u |A| (|B| 1)  +  v |D| 1        u, v: half a unit in the last place
//
// (twice 2^-11 more where tf32 rounds the operands). One check costs two reads of D. A
// wrong element above that bound escapes a vector with probability 1/2 at most.
//
// In the class batch_invariant, two results with the same numerics id must also have
// equal bits.
class AnswerCheck {
 public:
  // REQUIRES: A is M x K in row-major order, B is K x N in either; both are tightly packed.
  AnswerCheck(const client::MatrixView& a, const client::MatrixView& b, std::uint64_t seed)
      : AnswerCheck(a, b, seed, a.format().type) {}
  // Takes quantized operands: `a` and `b` are what their elements are worth, as f32, and `element`
  // is the elements' type, which says how exactly they are summed.
  AnswerCheck(const client::MatrixView& a, const client::MatrixView& b, std::uint64_t seed,
              DataType element);

  // Empty where right; else what is wrong, and where. Results of types that elements
  // cannot be read of are refused as wrong.
  std::string WhyWrong(const client::Product& product);

 private:
  struct Row {
    double value;      // of A (B x)
    double magnitude;  // of |A| (|B| 1)
  };
  struct Check {
    std::vector<double> signs;  // N of them
    std::vector<Row> rows;      // M of them
  };

  std::string WhyBitsDiffer(const client::Product& product);

  DataType summed_;      // whose sums are as exact as the product's
  std::uint64_t inner_;  // K
  std::vector<Check> checks_;
  Mutex mutex_;
  std::string numerics_id_ ABSL_GUARDED_BY(mutex_);  // of the first result
  std::size_t bits_ ABSL_GUARDED_BY(mutex_) = 0;     // its hash
};

}  // namespace gemmd::load
