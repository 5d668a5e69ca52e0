// One plane of a problem in host memory, of any layout, for tests and programs that run kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/problem.h"

namespace gemmd::testing {

// Bytes of one plane, aligned to 128, exactly as long as its last element.
class Plane {
 public:
  explicit Plane(const MatrixLayout& layout) : layout_(layout) {
    storage_.resize(layout.size_bytes() + 128, kPoison);
    data_ = storage_.data() + (128 - reinterpret_cast<std::uintptr_t>(storage_.data()) % 128) % 128;
  }

  void* data() { return data_; }

  template <typename T>
  T Get(std::int64_t row, std::int64_t column) const {
    T value;
    std::memcpy(&value, data_ + Offset(row, column), sizeof value);
    return value;
  }
  template <typename T>
  void Set(std::int64_t row, std::int64_t column, T value) {
    std::memcpy(data_ + Offset(row, column), &value, sizeof value);
  }

  // Returns whether the bytes between the lines are as they began.
  bool IsPaddingUntouched() const {
    const std::int64_t size = SizeBits(layout_.type) / 8;
    for (std::int64_t line = 0; line + 1 < layout_.outer(); ++line) {
      const unsigned char* const from = data_ + line * layout_.leading_dimension * size;
      for (std::int64_t i = layout_.inner() * size; i < layout_.leading_dimension * size; ++i) {
        if (from[i] != kPoison) return false;
      }
    }
    return true;
  }

 private:
  static constexpr unsigned char kPoison = 0x7f;  // NaN in every type

  std::int64_t Offset(std::int64_t row, std::int64_t column) const {
    return (row * layout_.row_stride() + column * layout_.column_stride()) *
           (SizeBits(layout_.type) / 8);
  }

  MatrixLayout layout_;
  std::vector<unsigned char> storage_;
  unsigned char* data_;
};

}  // namespace gemmd::testing
