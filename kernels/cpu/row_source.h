// Columns of op(B) for RowGemm(), wherever they come from.
#pragma once

#include <cstdint>

namespace gemmd {

enum class RowGemmForm : std::uint8_t;

// Columns of B whose chains are computed at a time, where lines are of K.
inline constexpr std::int64_t kDotColumns = 4;

// Steps of 16 elements of K from `k` on.
struct DotPart {
  std::int64_t k = 0;
  std::int64_t steps = 0;  // at most kMostDotSteps, or kLineSteps lines
};
// Lines of columns, 16 elements of K apart, that are added at a time.
inline constexpr std::int64_t kLineSteps = 4;
// A span of K has chains of its own, and begins where the part does or ends another.
inline constexpr std::int64_t kSpanSteps = 64;
inline constexpr std::int64_t kMostDotSteps = 4 * kSpanSteps;

// Rows of A, f32, `pitch` elements apart.
struct DotRows {
  const float* data = nullptr;
  std::int64_t pitch = 0;
  std::int64_t count = 0;
};

// Columns that are not stored as Real. Lines are what lies side by side in memory.
template <typename Real>
class ColumnSource {
 public:
  virtual ~ColumnSource() = default;

  // Lines of K: out[i * pitch + p] = element k + p of column `column` + i.
  // Lines of columns: out[p * pitch + i] is that element.
  virtual void Read(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth,
                    Real* out, std::int64_t pitch) const = 0;

  // Goes on with the chains of kDotColumns columns over a part of K, of which `rows` has the first
  // element; chains[(row * kDotColumns + column) * 16 + chain], those of each span `pitch` apart.
  // Returns false, and does nothing, where that takes Read(). REQUIRES: lines of K.
  virtual bool AddDots(std::int64_t /*column*/, const DotPart& /*part*/, const DotRows& /*rows*/,
                       RowGemmForm /*form*/, float* /*chains*/, std::int64_t /*pitch*/) const {
    return false;
  }

  // Goes on with one chain of columns [column, column + columns), a multiple of 16, from the lines
  // k, k + 16 ... of `steps` lines; sums[row * pitch + column of them]. `rows` has element k.
  // Returns false, and does nothing, where that takes Read(), for all of K. REQUIRES: lines of
  // columns.
  virtual bool AddLines(std::int64_t /*column*/, std::int64_t /*columns*/, const DotPart& /*part*/,
                        const DotRows& /*rows*/, RowGemmForm /*form*/, float* /*sums*/,
                        std::int64_t /*pitch*/) const {
    return false;
  }
};

template <typename Real>
struct Columns {
  bool has_lines_of_k = false;
  const Real* data = nullptr;  // lines `pitch` apart, or null: then `source` reads them
  std::int64_t pitch = 0;
  const ColumnSource<Real>* source = nullptr;
};

}  // namespace gemmd
