// The units that CPU kernels compute D in, and the memory that those at work at a time share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/math.h"
#include "base/sync/mutex.h"

namespace gemmd {

// A part of D.
struct Unit {
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t first_column;
  std::int64_t columns;
};

// D cut into units for `workers` threads: as large as the caches take, because a unit's operands
// are packed for it alone; smaller where a thread would get fewer than four, because the others
// wait for the one that computes the last; and smaller where a unit would take longer than others
// should wait for their turn. Columns are cut before rows: B takes longer to read, and longest
// where it is decoded. No bit of D depends on the cut.
class Units {
 public:
  static constexpr std::int64_t kMostRows = 256;
  static constexpr std::int64_t kMostColumns = 512;
  static constexpr std::int64_t kLeastRows = 64;
  static constexpr std::int64_t kLeastDecodedRows = 128;
  static constexpr std::int64_t kLeastShortRows = 128;  // where units are smaller to be short
  static constexpr std::int64_t kLeastColumns = 128;
  static constexpr std::int64_t kMostProducts = std::int64_t{1} << 25;  // 0.7 ms at 100 GFLOP/s

  // An element takes as long as `k` products of f32. `most_rows` and `least_rows` are powers of
  // two.
  Units(std::int64_t m, std::int64_t n, std::int64_t k, int workers,
        std::int64_t most_rows = kMostRows, std::int64_t least_rows = kLeastRows)
      : m_(m), n_(n), rows_(most_rows) {
    const std::int64_t wanted = workers > 1 ? 4 * std::int64_t{workers} : 1;
    const std::int64_t most_elements = kMostProducts / std::max<std::int64_t>(k, 1);
    while (count() < wanted && (rows_ > least_rows || columns_ > kLeastColumns)) Halve();
    while (rows() * columns() > most_elements &&
           (rows_ > kLeastShortRows || columns_ > kLeastColumns)) {
      Halve();
    }
  }

  std::int64_t count() const { return CeilOfRatio(m_, rows_) * CeilOfRatio(n_, columns_); }
  std::int64_t rows() const { return std::min(m_, rows_); }  // of a unit, at most
  std::int64_t columns() const { return std::min(n_, columns_); }

  // Neighbouring indices share rows of A.
  Unit operator[](std::int64_t index) const {
    const std::int64_t across = CeilOfRatio(n_, columns_);
    const std::int64_t row = index / across * rows_;
    const std::int64_t column = index % across * columns_;
    return {row, std::min(rows_, m_ - row), column, std::min(columns_, n_ - column)};
  }

 private:
  void Halve() { (columns_ > kLeastColumns ? columns_ : rows_) /= 2; }

  const std::int64_t m_;
  const std::int64_t n_;
  std::int64_t rows_;
  std::int64_t columns_ = kMostColumns;
};

// Numbers from 0 on, each with one owner at a time. REQUIRES: there are never more owners than
// numbers.
class SlotPool {
 public:
  explicit SlotPool(std::int64_t slots) {
    for (std::int64_t slot = 0; slot < slots; ++slot) free_.push_back(slot);
  }

  std::int64_t Take() {
    const MutexLock lock(mutex_);
    const std::int64_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void Give(std::int64_t slot) {
    const MutexLock lock(mutex_);
    free_.push_back(slot);
  }

 private:
  Mutex mutex_;
  std::vector<std::int64_t> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
