// Matrices of 16-bit floats for kernel tests, and the exact product a kernel must give.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/options.h"

namespace gemmd::testing {

// A row-major matrix with a leading dimension padded to 16 bytes, aligned to 128 bytes,
// exactly as long as its last element: what lies behind belongs to nobody.
class HalfMatrix {
 public:
  HalfMatrix(std::int64_t rows, std::int64_t columns);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t leading_dimension() const { return leading_dimension_; }
  std::uint16_t* data() { return data_; }
  const std::uint16_t* data() const { return data_; }
  std::uint64_t bytes() const;
  std::uint16_t& At(std::int64_t row, std::int64_t column) {
    return data_[row * leading_dimension_ + column];
  }
  std::uint16_t At(std::int64_t row, std::int64_t column) const {
    return data_[row * leading_dimension_ + column];
  }

  // Every element, padding included.
  void Fill(std::uint16_t bits);
  // Normally distributed elements; padding becomes NaN.
  void FillRandom(emulator::HalfFormat format, std::uint32_t seed);

  emulator::Buffer ReadOnly(const char* name) const { return {data_, bytes(), name, true}; }
  emulator::Buffer Writable(const char* name) const { return {data_, bytes(), name, false}; }

 private:
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t leading_dimension_;
  std::vector<std::uint16_t> storage_;
  std::uint16_t* data_;
};

enum class ProductForm : std::uint8_t { kF16AccumulateF32, kF16AccumulateF16, kBf16AccumulateF32 };

inline constexpr ProductForm kProductForms[] = {ProductForm::kF16AccumulateF32,
                                                ProductForm::kF16AccumulateF16,
                                                ProductForm::kBf16AccumulateF32};

emulator::HalfFormat FormatOf(ProductForm form);
const char* Name(ProductForm form);

// The bits of A * B, or of A * transposed B, as a tensor core gives them that adds blocks
// of 16 products in order of K (kernels/emulator/arithmetic/tensor_core.h), m x n without padding.
std::vector<std::uint16_t> ExactProduct(ProductForm form, const HalfMatrix& a, const HalfMatrix& b,
                                        bool transpose_b);

// Counts the elements of D that differ from the expected bits.
std::int64_t CountDifferent(const HalfMatrix& d, const std::vector<std::uint16_t>& expected);

}  // namespace gemmd::testing
