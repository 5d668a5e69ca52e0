#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/admission/validation.h"

namespace gemmd {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class UploadValidation : public ::testing::Test {
 protected:
  UploadValidation() {
    limits_.request_bytes = 1000;
    operand_.data = {DataType::kInt8, 20, 50, Order::kRowMajor, 0};
  }

  absl::Status Validate() const { return ValidateUpload(operand_, limits_).status(); }
  std::string Message() const { return std::string(Validate().message()); }
  void SetScales(std::uint64_t rows, std::uint64_t columns) {
    operand_.scales = PlaneSpec{DataType::kF32, rows, columns, Order::kRowMajor, 0};
  }

  RequestLimits limits_;
  OperandSpec operand_;
};

TEST_F(UploadValidation, AnOperandMayFillTheLimit) {
  EXPECT_EQ(Message(), "");
  operand_.data.columns = 51;
  EXPECT_EQ(Message(), "begin.operand.data is 20 x 51 int8; a plane may have 1000 bytes");
  operand_.data.rows = operand_.data.columns = limits_.dimension;
  EXPECT_EQ(Validate().code(), kInvalid);
}

TEST_F(UploadValidation, PlanesAreTight) {
  operand_.data.leading_dimension = 50;
  EXPECT_EQ(Message(), "");
  operand_.data.leading_dimension = 51;
  EXPECT_EQ(Message(),
            "begin.operand.data.leading_dimension is 51; it must be 50 or 0: uploaded planes are "
            "tightly packed");
  operand_.data.leading_dimension = 0;
  SetScales(20, 1);
  operand_.scales->leading_dimension = 2;
  EXPECT_EQ(Message(),
            "begin.operand.scales.leading_dimension is 2; it must be 1 or 0: uploaded planes are "
            "tightly packed");
}

TEST_F(UploadValidation, ScalesAreOneOrOneForEachRowOrColumn) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {20, 1}, {1, 20}, {1, 50}, {50, 1}}) {
    SetScales(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns));
    EXPECT_EQ(Message(), "") << rows << " x " << columns;
  }
  for (const auto& [rows, columns] : {std::pair{2, 1}, {1, 51}, {2, 10}, {20, 50}}) {
    SetScales(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns));
    EXPECT_EQ(Validate().code(), kInvalid) << rows << " x " << columns;
  }
  SetScales(1, 1);
  operand_.scales->type = DataType::kF64;
  EXPECT_EQ(Message(),
            "begin.operand.scales.type is f64; it must be f32, or begin.operand.quantization must "
            "say what blocks are scaled");
  operand_.scales->type = DataType::kF32;
  operand_.data = {DataType::kF32, 4, 4, Order::kRowMajor, 0};
  EXPECT_EQ(Message(),
            "begin.operand.scales is set, and begin.operand.data.type is f32; only quantized types "
            "have scales");
}

// K may lie along rows or along columns, as the use will say.
TEST_F(UploadValidation, BlocksLieAlongRowsOrColumns) {
  operand_.data = {DataType::kFp4E2M1, 20, 50, Order::kRowMajor, 0};
  operand_.blocks = BlockScaling{16, 1, false};
  operand_.tensor_scale = PlaneSpec{DataType::kF32, 1, 1, Order::kRowMajor, 0};
  for (const auto& [rows, columns] : {std::pair{20, 4}, {2, 50}, {20, 50}, {4, 20}}) {
    operand_.scales = PlaneSpec{DataType::kFp8E4M3, static_cast<std::uint64_t>(rows),
                                static_cast<std::uint64_t>(columns), Order::kRowMajor, 0};
    const bool fits = columns == 4 || rows == 2;
    EXPECT_EQ(Message(),
              fits ? ""
                   : "begin.operand.scales is " + std::to_string(rows) + " x " +
                         std::to_string(columns) +
                         "; it must be 20 x 4: the data are 20 x 50, in blocks of 1 x 16");
  }
  // Planes of scales may be larger than the data.
  operand_.data = {DataType::kFp8E4M3, 251, 1, Order::kRowMajor, 0};
  operand_.blocks = BlockScaling{128, 1, false};
  operand_.scales = PlaneSpec{DataType::kF32, 251, 1, Order::kRowMajor, 0};
  operand_.tensor_scale.reset();
  EXPECT_EQ(Message(), "begin.operand.scales is 251 x 1 f32; a plane may have 1000 bytes");
  operand_.data.rows = operand_.scales->rows = 250;
  EXPECT_EQ(Message(), "");
}

TEST_F(UploadValidation, AnOrderIsOfBlocksAlongK) {
  const auto set = [this](std::vector<std::uint32_t> order) {
    operand_.k_order = std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
  };
  operand_.data = {DataType::kInt8, 3, 20, Order::kRowMajor, 0};
  operand_.scales = PlaneSpec{DataType::kF32, 3, 2, Order::kRowMajor, 0};
  operand_.blocks = BlockScaling{16, 1, false};
  std::vector<std::uint32_t> order(20);
  for (std::uint32_t i = 0; i < 20; ++i) order[i] = (i * 7 + 3) % 20;
  set(order);
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(ValidateUpload(operand_, limits_)->k_order, operand_.k_order);
  order[4] = 20;
  set(order);
  EXPECT_EQ(Message(), "begin.operand.k_order[4] is 20; it must be less than K, 20");
  order[4] = order[1];
  set(order);
  EXPECT_EQ(Message(),
            "begin.operand.k_order[4] is 10, which came before; each place of K comes once");
  set({0, 1, 2});
  EXPECT_EQ(Message(), "begin.operand.k_order has 3 entries; it must have K, 20");
  // Where blocks are as long along both dimensions K may be either.
  operand_.data.type = DataType::kFp8E4M3;
  operand_.scales = PlaneSpec{DataType::kF32, 1, 1, Order::kRowMajor, 0};
  operand_.blocks = BlockScaling{128, 128, false};
  EXPECT_EQ(Message(), "");
  set({0, 1, 1});
  EXPECT_EQ(Message(),
            "begin.operand.k_order[2] is 1, which came before; each place of K comes once");
  set({0, 1});
  EXPECT_EQ(Message(), "begin.operand.k_order has 2 entries; it must have K, 20");
  set({0, 1, 2});
  operand_.data.type = DataType::kInt8;
  operand_.blocks.reset();
  operand_.scales = PlaneSpec{DataType::kF32, 3, 1, Order::kRowMajor, 0};
  EXPECT_EQ(Message(),
            "begin.operand.k_order is set, and begin.operand.quantization is missing; orders are "
            "of blocks along K");
}

TEST_F(UploadValidation, AnUploadBringsItsBytesItself) {
  operand_.source = Source::kShared;
  EXPECT_EQ(Validate().code(), kInvalid);
  operand_.source = Source::kInline;
  operand_.data.type = DataType::kMxfp8E4M3;
  EXPECT_EQ(Validate().code(), absl::StatusCode::kUnimplemented);
  operand_.data.type = DataType::kE8M0;
  EXPECT_EQ(Validate().code(), kInvalid);
}

}  // namespace
}  // namespace gemmd
