#include "client/quantized/quantize.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/quant/packed_codes.h"
#include "client/quantized/product_error.h"
#include "client/quantized/quantized_array.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

Matrix F32(std::uint64_t rows, std::uint64_t columns, std::vector<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return *Matrix::Create({DataType::kF32, rows, columns}, std::move(bytes));
}

// Draws values of either sign that are exact in bf16 and in f16.
std::vector<float> Draw(std::uint64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(static_cast<int>(random() % 255) - 127),
                       static_cast<int>(random() % 9) - 8);
  }
  return values;
}

absl::string_view View(const std::vector<std::uint8_t>& plane) {
  return {reinterpret_cast<const char*>(plane.data()), plane.size()};
}

QuantizedArray Made(const MatrixView& matrix, const QuantizeRequest& request) {
  absl::StatusOr<QuantizedArray> array = QuantizeMatrix(matrix, request);
  EXPECT_TRUE(array.ok()) << request.format << ": " << array.status();
  return *std::move(array);
}

TEST(QuantizeTest, EveryFormatIsThatOfTheKernelsToTheBit) {
  constexpr std::uint64_t kRows = 45;
  constexpr std::uint64_t kColumns = 131;
  for (const NamedFormat& named : QuantFormats()) {
    std::vector<float> values = Draw(kRows * kColumns, 1);
    for (float& value : values) value = HasSign(named.format) ? value : std::abs(value);
    const Matrix matrix = F32(kRows, kColumns, values);
    for (const KAxis axis : {KAxis::kRows, KAxis::kColumns}) {
      for (const bool is_tiled : {false, true}) {
        QuantizeRequest request{named.name, axis, is_tiled, {}};
        for (const ScaleRule rule : {ScaleRule::kRoundUp, ScaleRule::kFullRange}) {
          if (HasRule(named.format, rule)) request.options.scale_rule = rule;
        }
        request.options.rounding = {true, 7};
        QuantFormat format = named.format;
        if (is_tiled) {
          if (SizeBits(format.scaling.type) != 8) continue;
          format.scaling.order = ScaleOrder::kTiles128x4;
        }
        const bool k_is_rows = axis == KAxis::kRows;
        RealView real;
        real.data = values.data();
        real.lines = k_is_rows ? kColumns : kRows;
        real.k = k_is_rows ? kRows : kColumns;
        real.line_stride = k_is_rows ? 1 : kColumns;
        real.k_stride = k_is_rows ? kColumns : 1;
        const auto truth = Quantize(format, real, request.options);
        ASSERT_TRUE(truth.ok());
        const QuantizedArray array = Made(matrix.view(), request);
        EXPECT_EQ(array.codes.view(), View(truth->codes)) << named.name;
        EXPECT_EQ(array.scales.view(), View(truth->scales)) << named.name;
        EXPECT_EQ(array.zero_points.view(), View(truth->zero_points)) << named.name;
        EXPECT_EQ(array.offsets.view(), View(truth->offsets)) << named.name;
        EXPECT_EQ(array.tensor_scale, truth->tensor_scale) << named.name;

        const absl::StatusOr<Matrix> back = Dequantize(array);
        ASSERT_TRUE(back.ok());
        for (std::uint64_t i = 0; i < values.size(); i += 17) {
          const auto row = static_cast<std::int64_t>(i / kColumns);
          const auto column = static_cast<std::int64_t>(i % kColumns);
          float value = 0;
          std::memcpy(&value, back->bytes().data() + i * sizeof value, sizeof value);
          ASSERT_EQ(value, static_cast<float>(truth->view().value(k_is_rows ? column : row,
                                                                  k_is_rows ? row : column)))
              << named.name << " " << i;
        }
      }
    }
  }
}

TEST(QuantizeTest, TypeOrderAndPaddingOfTheMatrixDoNotMatter) {
  constexpr std::uint64_t kRows = 5;
  constexpr std::uint64_t kColumns = 67;
  const std::vector<float> values = Draw(kRows * kColumns, 2);
  const QuantizeRequest request{"nvfp4", KAxis::kColumns, false, {}};
  const QuantizedArray truth = Made(F32(kRows, kColumns, values).view(), request);
  for (const DataType type : {DataType::kF32, DataType::kF16, DataType::kBf16}) {
    for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
      MatrixFormat format{type, kRows, kColumns, order};
      format.leading_dimension = format.inner() + 3;
      const std::size_t bytes_each = static_cast<std::size_t>(SizeBits(type)) / 8;
      std::string bytes(*SizeBytes(format), '\x7f');
      for (std::uint64_t i = 0; i < values.size(); ++i) {
        const std::uint64_t row = i / kColumns;
        const std::uint64_t column = i % kColumns;
        std::uint32_t bits = 0;
        std::memcpy(&bits, &values[i], sizeof bits);
        if (type == DataType::kBf16) bits >>= 16;
        if (type == DataType::kF16) {
          // Exact: eight significant bits, and exponents well within f16's.
          const std::uint32_t sign = bits >> 16 & 0x8000;
          const std::uint32_t exponent = bits >> 23 & 0xff;
          bits = exponent == 0 ? sign : sign | (exponent - 112) << 10 | (bits >> 13 & 0x3ff);
        }
        const std::uint64_t index = order == Order::kRowMajor
                                        ? row * format.leading_dimension + column
                                        : column * format.leading_dimension + row;
        std::memcpy(bytes.data() + index * bytes_each, &bits, bytes_each);
      }
      const absl::StatusOr<Matrix> matrix = Matrix::Create(format, std::move(bytes));
      ASSERT_TRUE(matrix.ok());
      const QuantizedArray array = Made(matrix->view(), request);
      EXPECT_EQ(array.codes.view(), truth.codes.view()) << Name(type);
      EXPECT_EQ(array.scales.view(), truth.scales.view()) << Name(type);
      EXPECT_EQ(array.tensor_scale, truth.tensor_scale) << Name(type);
    }
  }
}

TEST(QuantizeTest, RefusalsNameTheElementTheTypeAndTheFormat) {
  const auto why = [](const Matrix& matrix, const QuantizeRequest& request) {
    return std::string(QuantizeMatrix(matrix.view(), request).status().message());
  };
  std::vector<float> values(12, 1);
  values[7] = std::numeric_limits<float>::infinity();
  // By row and column whatever K is.
  for (const KAxis axis : {KAxis::kRows, KAxis::kColumns}) {
    EXPECT_THAT(why(F32(3, 4, values), {"int8-row", axis, false, {}}),
                HasSubstr("element (1, 3) is inf"));
  }
  const Matrix good = F32(3, 4, std::vector<float>(12, 1));
  QuantizeRequest ruled{"int8-row", KAxis::kRows, false, {}};
  ruled.options.scale_rule = ScaleRule::kRoundUp;
  EXPECT_EQ(why(good, ruled),
            "scale rule round-up: it is of e8m0 scales; those of int8-row are f32");
  ruled = {"uint8-row", KAxis::kRows, false, {}};
  ruled.options.scale_rule = ScaleRule::kFullRange;
  EXPECT_EQ(why(good, ruled),
            "scale rule full-range: it is of int8, int4 and iq4-nl formats without zero points and "
            "offsets, not of uint8-row");
  EXPECT_THAT(why(good, {"int9-row", KAxis::kRows, false, {}}),
              HasSubstr("format 'int9-row': is int8-row or uint8-row meant? docs/quantization.md"));
  EXPECT_THAT(why(good, {"int8-g32", KAxis::kRows, true, {}}),
              HasSubstr("scales of int8-g32 are f32; tiles are of e8m0 and fp8_e4m3 alone"));
  const absl::StatusOr<Matrix> f64 = Matrix::Create({DataType::kF64, 1, 2}, std::string(16, '\0'));
  EXPECT_THAT(why(*f64, {"int8-row", KAxis::kRows, false, {}}),
              HasSubstr("1 x 2 f64 row-major: f32, f16 and bf16 are accepted"));
}

std::string PlaneText(const std::optional<Matrix>& plane) {
  return plane ? ToString(plane->format()) : "none";
}

TEST(QuantizeTest, PlanesOfAnOperandAreAsTheWireHasThem) {
  const Matrix matrix = F32(70, 40, Draw(70 * 40, 3));
  const auto operand = [&](const std::string& format, KAxis axis, Side side,
                           bool is_tiled = false) {
    return *ToOperand(Made(matrix.view(), {format, axis, is_tiled, {}}), side);
  };
  const InlineOperand b = operand("int4-g32-f16-zp", KAxis::kRows, Side::kB);
  EXPECT_EQ(ToString(b.data.format()), "70 x 40 uint4 column-major");
  EXPECT_EQ(PlaneText(b.scales), "3 x 40 f16 column-major");
  EXPECT_EQ(PlaneText(b.zero_points), "3 x 40 uint8 column-major");
  EXPECT_EQ(b.blocks, (BlockScaling{32, 1, false}));
  const InlineOperand a = operand("nvfp4", KAxis::kColumns, Side::kA);
  EXPECT_EQ(ToString(a.data.format()), "70 x 40 fp4_e2m1 row-major");
  EXPECT_EQ(PlaneText(a.scales), "70 x 3 fp8_e4m3 row-major");
  EXPECT_EQ(PlaneText(a.tensor_scale), "1 x 1 f32 row-major");
  const InlineOperand tiled = operand("mxfp4", KAxis::kRows, Side::kB, true);
  EXPECT_EQ(PlaneText(tiled.scales), "4 x 128 e8m0 row-major");
  EXPECT_TRUE(tiled.blocks->is_tiled);
  // Scales of whole lines lie as the side has them, not as the matrix does.
  EXPECT_EQ(PlaneText(operand("int8-row", KAxis::kColumns, Side::kA).scales),
            "70 x 1 f32 row-major");
  EXPECT_EQ(PlaneText(operand("int8-row", KAxis::kColumns, Side::kB).scales),
            "1 x 70 f32 row-major");
  EXPECT_EQ(PlaneText(operand("int8-row-zp", KAxis::kRows, Side::kB).zero_points),
            "1 x 40 int8 row-major");
  const InlineOperand tensor = operand("fp8-e4m3-tensor", KAxis::kRows, Side::kB);
  EXPECT_EQ(PlaneText(tensor.scales), "1 x 1 f32 row-major");
  EXPECT_FALSE(tensor.blocks.has_value());
}

TEST(QuantizeTest, KMustBeTheProductsUnlessBlocksAreSquare) {
  const Matrix matrix = F32(4, 5, Draw(20, 4));
  const auto check = [&](const std::string& format) {
    return CheckKAxis(Made(matrix.view(), {format, KAxis::kRows, false, {}}), KAxis::kColumns);
  };
  EXPECT_THAT(std::string(check("mxfp4").message()),
              HasSubstr("4 x 5 mxfp4 was quantized along axis 0, and K of this product is axis 1"));
  EXPECT_FALSE(check("int8-row").ok());
  EXPECT_TRUE(check("int8-tensor").ok());
  EXPECT_TRUE(check("fp8-e4m3-128x128").ok());
  EXPECT_EQ(KAxisOf(Side::kA, false), KAxis::kColumns);
  EXPECT_EQ(KAxisOf(Side::kA, true), KAxis::kRows);
  EXPECT_EQ(KAxisOf(Side::kB, false), KAxis::kRows);
  EXPECT_EQ(KAxisOf(Side::kB, true), KAxis::kColumns);
}

TEST(ProductErrorTest, IsThatOfNormsAndOfTheLargestElement) {
  const auto error =
      CompareProducts(F32(2, 2, {3, 4, 0, 1}).view(), F32(2, 2, {3, 4, 0, 0}).view());
  ASSERT_TRUE(error.ok());
  EXPECT_DOUBLE_EQ(error->relative, 0.2);
  EXPECT_EQ(error->largest, 1);
  EXPECT_EQ(error->row, 1U);
  EXPECT_EQ(error->column, 1U);
  EXPECT_EQ(error->d, 1);
  EXPECT_EQ(error->full, 0);
  const Matrix zeros = F32(1, 1, {0});
  EXPECT_EQ(CompareProducts(zeros.view(), zeros.view())->relative, 0);
}

TEST(ProductErrorTest, OrdersTypesAndPaddingDoNotMatter) {
  MatrixFormat format{DataType::kInt32, 2, 2, Order::kColumnMajor, 3};
  const std::int32_t stored[] = {1, 3, -1, 2, 4};
  const auto d =
      Matrix::Create(format, std::string(reinterpret_cast<const char*>(stored), sizeof stored));
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(CompareProducts(d->view(), F32(2, 2, {1, 2, 3, 4}).view())->relative, 0);
}

TEST(ProductErrorTest, AnElementThatIsNotFiniteIsTold) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto error = CompareProducts(F32(1, 3, {9, nan, 5}).view(), F32(1, 3, {1, 2, 3}).view());
  ASSERT_TRUE(error.ok());
  EXPECT_TRUE(std::isnan(error->relative));
  EXPECT_TRUE(std::isnan(error->largest));
  EXPECT_EQ(error->column, 1U);
}

TEST(ProductErrorTest, OtherShapesAndTypesAreRefused) {
  EXPECT_THAT(
      std::string(
          CompareProducts(F32(1, 2, {1, 2}).view(), F32(2, 1, {1, 2}).view()).status().message()),
      HasSubstr("their shapes must be equal"));
  const auto bytes = Matrix::Create({DataType::kInt8, 1, 1}, std::string(1, '\0'));
  EXPECT_THAT(std::string(CompareProducts(bytes->view(), F32(1, 1, {1}).view()).status().message()),
              HasSubstr("1 x 1 int8 row-major: f64, f32"));
}

}  // namespace
}  // namespace gemmd::client
