// The terms of a code table's numbers, by their definition.
#include "kernels/hopper/quant/table_terms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/code_table.h"

namespace gemmd::testing {
namespace {

using hopper::quant::TermsOf;

double SumOf(std::uint32_t terms, DataType type) {
  const auto first = static_cast<std::uint16_t>(terms);
  const auto second = static_cast<std::uint16_t>(terms >> 16);
  return type == DataType::kF16 ? static_cast<double>(FromF16(first)) + FromF16(second)
                                : static_cast<double>(FromBf16(first)) + FromBf16(second);
}

// Bounds of products count 2^-17 (kernels/verify/error_bound.h).
TEST(TableTerms, AreOffByFarLessThanOneTerm) {
  for (const DataType table : {DataType::kNf4, DataType::kBnbFp4}) {
    for (const DataType type : {DataType::kF16, DataType::kBf16}) {
      for (const float number : *CodeTableOf(table)) {
        EXPECT_LE(std::fabs(SumOf(TermsOf(number, type), type) - number),
                  0x1p-17 * std::fabs(number))
            << number;
      }
    }
  }
}

TEST(TableTerms, AreOneWhereTheTypeHasTheNumber) {
  for (const DataType type : {DataType::kF16, DataType::kBf16}) {
    for (const float number : *CodeTableOf(DataType::kIq4Nl)) {
      EXPECT_EQ(TermsOf(number, type) >> 16, 0u);
      EXPECT_EQ(SumOf(TermsOf(number, type), type), number);
    }
  }
}

TEST(TableTerms, LieOneAboveTheOther) {
  EXPECT_EQ(TermsOf(1.0F, DataType::kBf16), 0x3f80u);
  EXPECT_EQ(TermsOf(-0.5F, DataType::kF16), 0xb800u);
  // 1 + 2^-9: a bf16 has seven bits behind the first.
  EXPECT_EQ(TermsOf(1.001953125F, DataType::kBf16), 0x3b003f80u);
  EXPECT_EQ(TermsOf(1.001953125F, DataType::kF16), 0x3c02u);
}

}  // namespace
}  // namespace gemmd::testing
