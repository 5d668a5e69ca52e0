// Columns of op(B) for RowGemm(), wherever they come from.
#pragma once

#include <cstdint>

namespace gemmd {

// Columns that are not stored as Real. Lines are what lies side by side in memory.
template <typename Real>
class ColumnSource {
 public:
  virtual ~ColumnSource() = default;

  // Lines of K: out[i * pitch + p] = element k + p of column `column` + i.
  // Lines of columns: out[p * pitch + i] is that element.
  virtual void Read(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth,
                    Real* out, std::int64_t pitch) const = 0;
};

template <typename Real>
struct Columns {
  bool has_lines_of_k = false;
  const Real* data = nullptr;  // lines `pitch` apart, or null: then `source` reads them
  std::int64_t pitch = 0;
  const ColumnSource<Real>* source = nullptr;
};

}  // namespace gemmd
