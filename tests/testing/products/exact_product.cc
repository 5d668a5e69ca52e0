#include "tests/testing/products/exact_product.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/numbers/quant/elements.h"

namespace gemmd {
namespace {

// A sum of products in twice binary64's precision; infinite or NaN as the plain sum is.
class CompensatedSum {
 public:
  void AddProduct(double x, double y) {
    const double product = x * y;
    plain_ += product;
    const double product_error = std::fma(x, y, -product);
    const double sum = sum_ + product;
    const double other = sum - sum_;
    error_ += (sum_ - (sum - other)) + (product - other) + product_error;
    sum_ = sum;
  }
  double value() const { return std::isfinite(plain_) ? sum_ + error_ : plain_; }

 private:
  double plain_ = 0;
  double sum_ = 0;
  double error_ = 0;
};

// Codes less their zero points, and where scales change, of one line.
struct IntegerLine {
  std::vector<std::int64_t> codes;
  std::vector<double> scales;  // of each element
};

IntegerLine ReadIntegers(const QuantizedView& view, std::int64_t line) {
  IntegerLine result;
  for (std::int64_t k = 0; k < view.k; ++k) {
    const double code = DecodeElement(view.format.element, view.code(line, k));
    result.codes.push_back(static_cast<std::int64_t>(code) - view.zero_point(line, k));
    result.scales.push_back(view.scale(line, k));
  }
  return result;
}

// Elements from k on with the scale block of k, in both operands.
std::int64_t EndOfRun(const QuantizedView& a, const QuantizedView& b, std::int64_t k) {
  std::int64_t end = a.k;
  for (const std::int64_t block : {a.format.scaling.block_k, b.format.scaling.block_k}) {
    if (block != kWhole) end = std::min(end, (k / block + 1) * block);
  }
  return end;
}

std::vector<IntegerLine> ReadIntegers(const QuantizedView& view) {
  std::vector<IntegerLine> lines;
  lines.reserve(static_cast<std::size_t>(view.lines));
  for (std::int64_t line = 0; line < view.lines; ++line) lines.push_back(ReadIntegers(view, line));
  return lines;
}

void MultiplyIntegers(const QuantizedView& a, const QuantizedView& b, ExactProductResult* result) {
  const std::vector<IntegerLine> a_lines = ReadIntegers(a);
  const std::vector<IntegerLine> b_lines = ReadIntegers(b);
  for (const IntegerLine& row : a_lines) {
    for (const IntegerLine& column : b_lines) {
      CompensatedSum d;
      CompensatedSum magnitude;
      for (std::int64_t begin = 0; begin < a.k;) {
        const std::int64_t end = EndOfRun(a, b, begin);
        std::int64_t sum = 0;
        std::int64_t magnitudes = 0;
        for (auto k = static_cast<std::size_t>(begin); k < static_cast<std::size_t>(end); ++k) {
          sum += row.codes[k] * column.codes[k];
          magnitudes += std::abs(row.codes[k] * column.codes[k]);
        }
        const auto first = static_cast<std::size_t>(begin);
        const double scales = row.scales[first] * column.scales[first];
        d.AddProduct(static_cast<double>(sum), scales);
        magnitude.AddProduct(static_cast<double>(magnitudes), std::abs(scales));
        begin = end;
      }
      result->d.push_back(d.value());
      result->magnitude.push_back(magnitude.value());
    }
  }
}

void MultiplyValues(const QuantizedView& a, const QuantizedView& b, ExactProductResult* result) {
  const std::vector<double> a_values = Dequantize(a);
  const std::vector<double> b_values = Dequantize(b);
  for (std::int64_t m = 0; m < a.lines; ++m) {
    const double* row = a_values.data() + m * a.k;
    for (std::int64_t n = 0; n < b.lines; ++n) {
      const double* column = b_values.data() + n * b.k;
      CompensatedSum d;
      CompensatedSum magnitude;
      for (std::int64_t k = 0; k < a.k; ++k) {
        d.AddProduct(row[k], column[k]);
        magnitude.AddProduct(std::abs(row[k]), std::abs(column[k]));
      }
      result->d.push_back(d.value());
      result->magnitude.push_back(magnitude.value());
    }
  }
}

}  // namespace

ExactProductResult ExactProduct(const QuantizedView& a, const QuantizedView& b) {
  ExactProductResult result;
  if (HasIntegerSums(a.format) && HasIntegerSums(b.format)) {
    MultiplyIntegers(a, b, &result);
  } else {
    MultiplyValues(a, b, &result);
  }
  return result;
}

}  // namespace gemmd
