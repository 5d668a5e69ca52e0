#include "tests/kernels/emulator/half_matrix.h"

#include <algorithm>

namespace gemmd::testing {
namespace {

constexpr std::int64_t kStrideElements = 8;
constexpr std::uint64_t kAlignment = 128;

std::vector<emulator::Factors> Blocks(emulator::HalfFormat format, const HalfMatrix& matrix,
                                      std::int64_t line, bool is_row, std::int64_t k) {
  std::vector<emulator::Factors> blocks(static_cast<std::size_t>((k + 15) / 16));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(blocks.size()) * 16; ++i) {
    const std::uint16_t bits = i >= k ? 0 : is_row ? matrix.At(line, i) : matrix.At(i, line);
    blocks[static_cast<std::size_t>(i / 16)].Set(format, static_cast<int>(i % 16), bits);
  }
  return blocks;
}

}  // namespace

HalfMatrix::HalfMatrix(std::int64_t rows, std::int64_t columns)
    : rows_(rows),
      columns_(columns),
      leading_dimension_((columns + kStrideElements - 1) / kStrideElements * kStrideElements),
      storage_(static_cast<std::size_t>(rows * leading_dimension_) + kAlignment / 2) {
  const auto address = reinterpret_cast<std::uint64_t>(storage_.data());
  data_ = storage_.data() + (kAlignment - address % kAlignment) % kAlignment / 2;
}

std::uint64_t HalfMatrix::bytes() const {
  return static_cast<std::uint64_t>((rows_ - 1) * leading_dimension_ + columns_) * 2;
}

void HalfMatrix::Fill(std::uint16_t bits) { std::fill(storage_.begin(), storage_.end(), bits); }

void HalfMatrix::FillRandom(emulator::HalfFormat format, std::uint32_t seed) {
  Fill(0x7fff);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t column = 0; column < columns_; ++column) {
      At(row, column) = emulator::Narrow(format, normal(generator));
    }
  }
}

emulator::HalfFormat FormatOf(ProductForm form) {
  return form == ProductForm::kBf16AccumulateF32 ? emulator::HalfFormat::kBf16
                                                 : emulator::HalfFormat::kF16;
}

const char* Name(ProductForm form) {
  switch (form) {
    case ProductForm::kF16AccumulateF32:
      return "f16_f32";
    case ProductForm::kF16AccumulateF16:
      return "f16_f16";
    case ProductForm::kBf16AccumulateF32:
      return "bf16_f32";
  }
  return "";
}

std::vector<std::uint16_t> ExactProduct(ProductForm form, const HalfMatrix& a, const HalfMatrix& b,
                                        bool transpose_b) {
  const emulator::HalfFormat format = FormatOf(form);
  const std::int64_t n = transpose_b ? b.rows() : b.columns();
  std::vector<std::vector<emulator::Factors>> columns;
  for (std::int64_t column = 0; column < n; ++column) {
    columns.push_back(Blocks(format, b, column, transpose_b, a.columns()));
  }
  std::vector<std::uint16_t> product;
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    const std::vector<emulator::Factors> factors = Blocks(format, a, row, true, a.columns());
    for (const auto& column : columns) {
      float sum = 0;
      for (std::size_t i = 0; i < factors.size(); ++i) {
        const double exact = emulator::AlignedSum(sum, factors[i], column[i]);
        sum = form == ProductForm::kF16AccumulateF16
                  ? emulator::Widen(format, emulator::RoundToF16(exact))
                  : emulator::RoundToF32(exact);
      }
      product.push_back(emulator::Narrow(format, sum));
    }
  }
  return product;
}

std::int64_t CountDifferent(const HalfMatrix& d, const std::vector<std::uint16_t>& expected) {
  std::int64_t different = 0;
  for (std::int64_t row = 0; row < d.rows(); ++row) {
    for (std::int64_t column = 0; column < d.columns(); ++column) {
      different +=
          d.At(row, column) != expected[static_cast<std::size_t>(row * d.columns() + column)];
    }
  }
  return different;
}

}  // namespace gemmd::testing
