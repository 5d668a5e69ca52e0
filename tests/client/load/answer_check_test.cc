#include "client/load/answer_check.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/numbers/float_bits.h"
#include "client/load/data.h"
#include "gmock/gmock.h"

namespace gemmd::load {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kM = 7;
constexpr std::uint64_t kN = 9;
constexpr std::uint64_t kK = 300;

client::MatrixFormat Format(DataType type, std::uint64_t rows, std::uint64_t columns) {
  client::MatrixFormat format;
  format.type = type;
  format.rows = rows;
  format.columns = columns;
  return format;
}

bool IsFp8(DataType type) { return type == DataType::kFp8E4M3 || type == DataType::kFp8E5M2; }

DataType ResultOf(DataType type) {
  if (IsFp8(type)) return DataType::kBf16;
  return type == DataType::kInt8 ? DataType::kInt32 : type;
}

// Operands, and their product summed in the type that a server would sum in.
struct Case {
  Case(DataType type, DataSpec data)
      : a(Generate(Format(type, kM, kK), data, 1)),
        b(Generate(Format(type, kK, kN), {data.distribution, false}, 2)) {
    const DataType result = ResultOf(type);
    std::string bytes(*client::SizeBytes(Format(result, kM, kN)), '\0');
    for (std::uint64_t r = 0; r < kM; ++r) {
      for (std::uint64_t c = 0; c < kN; ++c) Put(result, Sum(type, r, c), r * kN + c, bytes);
    }
    product.format = Format(result, kM, kN);
    product.d = *client::Matrix::Create(product.format, std::move(bytes));
  }

  double Sum(DataType type, std::uint64_t r, std::uint64_t c) const {
    double sum = 0;
    for (std::uint64_t k = 0; k < kK; ++k) {
      sum += ElementAt(type, a.bytes(), r * kK + k) * ElementAt(type, b.bytes(), k * kN + c);
      if (type != DataType::kF64) sum = static_cast<float>(sum);
    }
    return sum;
  }

  static void Put(DataType type, double value, std::uint64_t index, std::string& bytes) {
    const auto put = [&](auto stored) {
      std::memcpy(bytes.data() + index * sizeof stored, &stored, sizeof stored);
    };
    if (type == DataType::kF64) return put(value);
    if (type == DataType::kInt32) return put(static_cast<std::int32_t>(value));
    if (type == DataType::kBf16) return put(ToBf16(static_cast<float>(value)));
    if (type == DataType::kF16) return put(ToF16(static_cast<float>(value)));
    put(static_cast<float>(value));
  }

  // The product with one element changed.
  client::Product Spoilt(std::uint64_t index, double change) const {
    std::string bytes(product.d->bytes());
    const DataType type = product.format.type;
    Put(type, ElementAt(type, bytes, index) + change, index, bytes);
    client::Product spoilt = product;
    spoilt.d = *client::Matrix::Create(product.format, std::move(bytes));
    return spoilt;
  }

  client::Matrix a;
  client::Matrix b;
  client::Product product;
};

TEST(AnswerCheck, TakesRightProductsAndNoOthers) {
  for (const DataType type :
       {DataType::kF64, DataType::kF32, DataType::kTf32, DataType::kF16, DataType::kBf16,
        DataType::kInt8, DataType::kFp8E4M3, DataType::kFp8E5M2}) {
    for (const Distribution distribution :
         {Distribution::kNormal, Distribution::kUniform, Distribution::kScales}) {
      const Case that(type, {distribution, false});
      AnswerCheck check(that.a.view(), that.b.view(), 3);
      EXPECT_EQ(check.WhyWrong(that.product), "") << Name(type);
      for (std::uint64_t index = 0; index < kM * kN; ++index) {
        // The change is some 30 of D's standard deviations, a tenth of that where D itself varies
        // more.
        const double scale = distribution == Distribution::kScales ? 300 : 30;
        const double change = type == DataType::kInt8 ? 1 : scale * std::sqrt(kK);
        EXPECT_THAT(check.WhyWrong(that.Spoilt(index, change)),
                    HasSubstr(absl::StrCat("row ", index / kN)))
            << Name(type);
      }
    }
  }
}

TEST(AnswerCheck, ExpectsNanWhereAHasIt) {
  const Case that(DataType::kF32, {Distribution::kNormal, true});
  AnswerCheck check(that.a.view(), that.b.view(), 3);
  EXPECT_EQ(check.WhyWrong(that.product), "");
  const Case clean(DataType::kF32, {Distribution::kNormal, false});
  AnswerCheck strict(clean.a.view(), clean.b.view(), 3);
  EXPECT_NE(strict.WhyWrong(that.product), "");
  EXPECT_NE(check.WhyWrong(clean.product), "");
}

TEST(AnswerCheck, WantsEqualBitsForEqualNumericsIds) {
  const Case that(DataType::kF32, {});
  AnswerCheck check(that.a.view(), that.b.view(), 3);
  client::Product first = that.product;
  first.receipt.server.set_numerics_id("one");
  EXPECT_EQ(check.WhyWrong(first), "");
  EXPECT_EQ(check.WhyWrong(first), "");
  client::Product near = that.Spoilt(5, 1e-5);  // right, but other bits
  EXPECT_EQ(check.WhyWrong(near), "");          // without an id nothing is promised
  near.receipt.server.set_numerics_id("one");
  EXPECT_THAT(check.WhyWrong(near), HasSubstr("other bits"));
  near.receipt.server.set_numerics_id("two");
  EXPECT_EQ(check.WhyWrong(near), "");
  near.receipt.server.set_numerics_id("one");
  near.receipt.server.set_determinism(v1::FAST);
  EXPECT_EQ(check.WhyWrong(near), "");
}

}  // namespace
}  // namespace gemmd::load
