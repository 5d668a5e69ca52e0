#include "client/quantized/of_operand.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/quant/packed_codes.h"
#include "client/quantized/quantize.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

QuantizedArray Array(const std::string& format, std::uint64_t rows, std::uint64_t columns,
                     KAxis axis, bool is_tiled = false) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::string bytes(rows * columns * sizeof(float), '\0');
  for (std::uint64_t i = 0; i < rows * columns; ++i) {
    const float value = normal(random);
    const float held = HasSign(*FindQuantFormat(format)) ? value : std::abs(value);
    std::memcpy(bytes.data() + i * sizeof held, &held, sizeof held);
  }
  const Matrix real = *Matrix::Create({DataType::kF32, rows, columns}, std::move(bytes));
  return *QuantizeMatrix(real.view(), {format, axis, is_tiled, {}});
}

void ExpectSame(const QuantizedArray& got, const QuantizedArray& array) {
  EXPECT_EQ(got.format_name, array.format_name);
  EXPECT_EQ(got.format.scaling, array.format.scaling);
  EXPECT_EQ(got.rows, array.rows);
  EXPECT_EQ(got.columns, array.columns);
  EXPECT_EQ(got.codes.view(), array.codes.view());
  EXPECT_EQ(got.scales.view(), array.scales.view());
  EXPECT_EQ(got.zero_points.view(), array.zero_points.view());
  EXPECT_EQ(got.offsets.view(), array.offsets.view());
  EXPECT_EQ(got.tensor_scale, array.tensor_scale);
  EXPECT_TRUE(AreEqual(got.k_order, array.k_order));
}

// A plane stored in the other order.
Matrix Turned(const Matrix& plane) {
  MatrixFormat format = plane.format();
  const bool was_row_major = format.order == Order::kRowMajor;
  const auto outer = static_cast<std::int64_t>(format.outer());
  const auto inner = static_cast<std::int64_t>(format.inner());
  std::string bytes(plane.bytes().size(), '\0');
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      const int bits = SizeBits(format.type);
      StoreCode(bytes.data(), bits, j * outer + i,
                LoadCode(plane.bytes().data(), bits, i * inner + j));
    }
  }
  format.order = was_row_major ? Order::kColumnMajor : Order::kRowMajor;
  return *Matrix::Create(format, std::move(bytes));
}

TEST(OfOperand, EveryFormatComesBackFromTheOperandThatItMakes) {
  for (const NamedFormat& named : QuantFormats()) {
    for (const KAxis axis : {KAxis::kRows, KAxis::kColumns}) {
      for (const bool is_tiled : {false, true}) {
        if (is_tiled && SizeBits(named.format.scaling.type) != 8) continue;
        for (const std::uint64_t rows : {133, 7}) {  // square, and not
          SCOPED_TRACE(named.name);
          const QuantizedArray array = Array(named.name, rows, 133, axis, is_tiled);
          const auto got = FromOperand(*ToOperand(array, SideOf(axis)));
          ASSERT_TRUE(got.ok()) << got.status();
          EXPECT_EQ(got->k_axis, axis);
          ExpectSame(*got, array);
        }
      }
    }
  }
}

TEST(OfOperand, PlanesThatLieAcrossKAreTurned) {
  for (const char* const format : {"int4-g32-f16-zp", "int4-g64-f32-offset", "int8-g128", "nvfp4",
                                   "fp8-e4m3-1x128", "mxfp6-e2m3"}) {
    for (const KAxis axis : {KAxis::kRows, KAxis::kColumns}) {
      SCOPED_TRACE(format);
      const QuantizedArray array = Array(format, 133, 133, axis);
      InlineOperand operand = *ToOperand(array, SideOf(axis));
      operand.data = Turned(operand.data);
      operand.scales = Turned(*operand.scales);
      if (operand.zero_points) operand.zero_points = Turned(*operand.zero_points);
      if (operand.offsets) operand.offsets = Turned(*operand.offsets);
      const auto got = FromOperand(operand);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->k_axis, axis);
      ExpectSame(*got, array);
    }
  }
}

TEST(OfOperand, AnOrderSaysWhichDimensionIsK) {
  std::vector<std::uint32_t> order(133);
  for (std::uint32_t i = 0; i < 133; ++i) order[i] = 132 - i;
  QuantizedArray array = Array("fp8-e4m3-128x128", 130, 133, KAxis::kColumns);
  array.k_order = std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
  InlineOperand operand = *ToOperand(array, Side::kA);
  operand.data = Turned(operand.data);  // its codes alone would say that K is the rows
  const auto got = FromOperand(operand);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->k_axis, KAxis::kColumns);
  ExpectSame(*got, array);
}

TEST(OfOperand, WhatNoFormatHasIsRefusedByName) {
  const auto why = [](const InlineOperand& operand) {
    const absl::Status status = FromOperand(operand).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const Matrix real = *Matrix::Create({DataType::kF32, 1, 2}, std::string(8, '\0'));
  EXPECT_EQ(why(InlineOperand(real)),
            "it is f32 without scales, and a container has a quantized format");
  InlineOperand operand = *ToOperand(Array("int8-g32", 64, 64, KAxis::kRows), Side::kB);
  operand.blocks->block_k = 48;
  EXPECT_EQ(why(operand), "it is int8 with scales f32/1x48, which no format has a name for");
  operand.blocks->block_k = 65536 + 32;
  EXPECT_THAT(why(operand), HasSubstr("which no format has a name for"));
  operand.blocks->block_k = 64;
  EXPECT_THAT(why(operand), HasSubstr("its planes are not those of int8-g64 of 64 x 64: its scales "
                                      "are 2 x 64 f32 column-major"));
}

}  // namespace
}  // namespace gemmd::client
