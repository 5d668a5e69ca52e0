#include "client/load/answer_check.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/numbers/fp8.h"
#include "client/load/data.h"
#include "client/load/random.h"

namespace gemmd::load {
namespace {

constexpr int kVectors = 2;

// Half a unit in the last place of a value of 1; 0 where arithmetic is exact.
double HalfUlp(DataType type) {
  switch (type) {
    case DataType::kF64:
      return 0x1p-53;
    case DataType::kF16:
      return 0x1p-11;
    case DataType::kBf16:
      return 0x1p-8;
    case DataType::kInt8:
    case DataType::kInt32:
      return 0;
    default:
      return 0x1p-24;
  }
}

double Largest(DataType type) {
  if (type == DataType::kF16) return 65504;
  return type == DataType::kF64 ? std::numeric_limits<double>::max()
                                : static_cast<double>(std::numeric_limits<float>::max());
}

// Returns the error bound of a sum, relative to |A| |B|.
double SumError(DataType type, std::uint64_t inner) {
  if (type == DataType::kInt8) return 0;
  // As kernels/verify/freivalds.h has it: tensor cores sum fp8 in fewer bits than f32's.
  if (IsFp8(type)) return (static_cast<double>(inner) / 32 + 4) * 0x1p-13;
  const auto terms = static_cast<double>(inner + 8);
  if (type == DataType::kF64) return 2 * terms * HalfUlp(type);  // ours in binary64 as well
  return terms * 0x1p-24 + (type == DataType::kTf32 ? 0x1p-10 : 0);
}

// Returns the type whose sums are as exact as those of `element`s that are given as `values`.
// Integers with scales are no exact integers; fp8 stays fp8, because tensor cores sum it in fewer
// bits than f32 has.
DataType SummedAs(DataType values, DataType element) {
  return element == values || IsFp8(element) ? element : values;
}

bool CanRead(DataType type) { return CanGenerate(type) || type == DataType::kInt32; }

}  // namespace

AnswerCheck::AnswerCheck(const client::MatrixView& a, const client::MatrixView& b,
                         std::uint64_t seed, DataType element)
    : summed_(
          SummedAs(a.format().type == b.format().type ? a.format().type : DataType::kF32, element)),
      inner_(a.format().columns) {
  const std::uint64_t rows = a.format().rows;
  const std::uint64_t columns = b.format().columns;
  const bool b_is_transposed = b.format().order == Order::kColumnMajor;
  Random random(seed);
  for (int i = 0; i < kVectors; ++i) {
    Check check;
    for (std::uint64_t c = 0; c < columns; ++c) {
      check.signs.push_back(random.Next() % 2 == 0 ? 1.0 : -1.0);
    }
    std::vector<Row> product(inner_);  // B x and |B| 1
    for (std::uint64_t k = 0; k < inner_; ++k) {
      for (std::uint64_t c = 0; c < columns; ++c) {
        const double value = ElementAt(b.format().type, b.bytes(),
                                       b_is_transposed ? c * inner_ + k : k * columns + c);
        product[k].value += value * check.signs[c];
        product[k].magnitude += std::abs(value);
      }
    }
    check.rows.resize(rows);
    for (std::uint64_t r = 0; r < rows; ++r) {
      for (std::uint64_t k = 0; k < inner_; ++k) {
        const double value = ElementAt(a.format().type, a.bytes(), r * inner_ + k);
        check.rows[r].value += value * product[k].value;
        check.rows[r].magnitude += std::abs(value) * product[k].magnitude;
      }
    }
    checks_.push_back(std::move(check));
  }
}

std::string AnswerCheck::WhyWrong(const client::Product& product) {
  const client::MatrixFormat& format = product.format;
  if (!CanRead(format.type) || format.order != Order::kRowMajor) {
    return absl::StrCat("a result of ", client::ToString(format), " cannot be checked");
  }
  const double sum_error = SumError(summed_, inner_);
  for (const Check& check : checks_) {
    for (std::uint64_t r = 0; r < format.rows; ++r) {
      const Row& truth = check.rows[r];
      double value = 0;
      double magnitude = 0;
      for (std::uint64_t c = 0; c < format.columns; ++c) {
        const double element = ElementAt(format.type, product.d->bytes(), r * format.stride() + c);
        value += element * check.signs[c];
        magnitude += std::abs(element);
      }
      // Infinity is no error if the result's type may overflow.
      if (!std::isfinite(value) && truth.magnitude > Largest(format.type)) continue;
      const double bound = sum_error * truth.magnitude + HalfUlp(format.type) * magnitude;
      const bool right =
          std::isnan(truth.value) ? std::isnan(value) : std::abs(value - truth.value) <= bound;
      if (!right) {
        return absl::StrFormat("row %d times a vector of signs is %.9g, but %.9g +- %.3g is right",
                               r, value, truth.value, bound);
      }
    }
  }
  return WhyBitsDiffer(product);
}

std::string AnswerCheck::WhyBitsDiffer(const client::Product& product) {
  const v1::Receipt& receipt = product.receipt.server;
  if (receipt.determinism() != v1::BATCH_INVARIANT || receipt.numerics_id().empty()) return "";
  const std::size_t bits =
      std::hash<std::string_view>()({product.d->bytes().data(), product.d->bytes().size()});
  const MutexLock lock(mutex_);
  if (numerics_id_.empty()) {
    numerics_id_ = receipt.numerics_id();
    bits_ = bits;
  }
  if (numerics_id_ != receipt.numerics_id() || bits_ == bits) return "";
  return absl::StrCat("other bits than an earlier result of the same operands with numerics id ",
                      numerics_id_);
}

}  // namespace gemmd::load
