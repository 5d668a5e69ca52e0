#include "client/split/cut_rows.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

// Bytes that say where they are, up to 251.
Matrix Numbered(const MatrixFormat& format) {
  std::string bytes(*SizeBytes(format), '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251);
  return *Matrix::Create(format, std::move(bytes));
}

Matrix Int8(std::uint64_t rows, std::uint64_t columns, Order order = Order::kRowMajor,
            std::uint64_t leading_dimension = 0) {
  return Numbered({DataType::kInt8, rows, columns, order, leading_dimension});
}

char At(const Matrix& matrix, std::uint64_t row, std::uint64_t column) {
  const MatrixFormat& format = matrix.format();
  return matrix.bytes()[format.order == Order::kRowMajor ? row * format.stride() + column
                                                         : column * format.stride() + row];
}

const InlineOperand& Inline(const Operand& operand) { return std::get<InlineOperand>(operand); }

CutPolicy Small(std::uint64_t tile_rows) {
  CutPolicy policy;
  policy.tile_rows = tile_rows;
  policy.least_part_flops = 1;
  return policy;
}

TEST(CutRowsTest, PartsAreWholeTilesAndAsEqualAsTheseAllow) {
  for (std::uint64_t rows = 1; rows < 80; ++rows) {
    for (int servers = 1; servers < 6; ++servers) {
      const std::vector<RowRange> parts =
          CutRows({Int8(rows, 2), Int8(2, 2)}, {}, servers, Small(8));
      EXPECT_EQ(parts.size(),
                std::min<std::uint64_t>(static_cast<std::uint64_t>(servers), (rows + 7) / 8));
      std::uint64_t least = rows;
      std::uint64_t most = 0;
      std::uint64_t begin = 0;
      for (const RowRange& part : parts) {
        EXPECT_EQ(part.begin, begin);
        EXPECT_EQ(part.begin % 8, 0u);
        const std::uint64_t tiles = (part.size() + 7) / 8;
        least = std::min(least, tiles);
        most = std::max(most, tiles);
        begin = part.end;
      }
      EXPECT_EQ(begin, rows);
      EXPECT_LE(most, least + 1);
      EXPECT_GE(least, 1u);
    }
  }
}

TEST(CutRowsTest, NoPartIsSmallerThanItIsWorth) {
  CutPolicy policy;
  policy.tile_rows = 1;
  policy.least_part_flops = 2.0 * 10 * 4 * 4;  // ten rows
  const auto parts = [&](std::uint64_t rows) {
    return CutRows({Int8(rows, 4), Int8(4, 4)}, {}, 4, policy).size();
  };
  EXPECT_EQ(parts(9), 1u);
  EXPECT_EQ(parts(19), 1u);
  EXPECT_EQ(parts(20), 2u);
  EXPECT_EQ(parts(39), 3u);
  EXPECT_EQ(parts(400), 4u);
  // Transposed, K is the other side.
  MatmulOptions transposed;
  transposed.transpose_a = true;
  transposed.transpose_b = true;
  EXPECT_EQ(CutRows({Int8(4, 20), Int8(4, 4)}, transposed, 4, policy).size(), 2u);
  // N is not known: as if B were square.
  EXPECT_EQ(CutRows({Int8(20, 4), OperandName{{}, std::string(32, 'd')}}, {}, 4, policy).size(),
            2u);
}

TEST(CutRowsTest, RowsThatLieTogetherAreNotCopied) {
  for (const std::uint64_t leading_dimension : {0, 7}) {
    const MatmulInputs inputs{Int8(10, 5, Order::kRowMajor, leading_dimension), Int8(5, 3)};
    const auto part = InputsOf(inputs, {}, {4, 10});
    ASSERT_TRUE(part.ok()) << part.status();
    const Matrix& a = Inline(part->a).data;
    EXPECT_EQ(a.format().rows, 6u);
    EXPECT_EQ(a.format().columns, 5u);
    EXPECT_EQ(a.bytes().data(),
              Inline(inputs.a).data.bytes().data() + 4 * Inline(inputs.a).data.format().stride());
    EXPECT_EQ(Inline(part->b).data.bytes().data(), Inline(inputs.b).data.bytes().data());
  }
}

TEST(CutRowsTest, RowsHaveTheirElementsInEachLayout) {
  for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
    for (const bool is_transposed : {false, true}) {
      const Matrix a = is_transposed ? Int8(5, 10, order, 11) : Int8(10, 5, order, 11);
      MatmulInputs inputs{a, Int8(5, 3)};
      inputs.c = Int8(10, 3, order, 12);
      MatmulOptions options;
      options.transpose_a = is_transposed;
      const auto part = InputsOf(inputs, options, {4, 7});
      ASSERT_TRUE(part.ok()) << part.status();
      const Matrix& cut = Inline(part->a).data;
      for (std::uint64_t row = 0; row < 3; ++row) {
        for (std::uint64_t k = 0; k < 5; ++k) {
          EXPECT_EQ(is_transposed ? At(cut, k, row) : At(cut, row, k),
                    is_transposed ? At(a, k, row + 4) : At(a, row + 4, k));
        }
        for (std::uint64_t column = 0; column < 3; ++column) {
          EXPECT_EQ(At(Inline(*part->c).data, row, column),
                    At(Inline(*inputs.c).data, row + 4, column));
        }
      }
    }
  }
}

TEST(CutRowsTest, ScalesOfRowsAreCutAndThoseOfAllAreNot) {
  for (const bool is_transposed : {false, true}) {
    MatmulOptions options;
    options.transpose_a = is_transposed;
    InlineOperand a(is_transposed ? Int8(5, 10) : Int8(10, 5), Int8(10, 1));
    a.zero_points = Int8(10, 1);
    a.offsets = Int8(1, 1);
    a.tensor_scale = Int8(1, 1);
    const auto part = InputsOf({a, Int8(5, 3)}, options, {4, 10});
    ASSERT_TRUE(part.ok()) << part.status();
    const InlineOperand& cut = Inline(part->a);
    EXPECT_EQ(cut.scales->format().rows, 6u);
    EXPECT_EQ(At(*cut.scales, 0, 0), 4);
    EXPECT_EQ(At(*cut.zero_points, 5, 0), 9);
    EXPECT_EQ(cut.offsets->format().rows, 1u);
    EXPECT_EQ(cut.tensor_scale->format().rows, 1u);
  }
}

TEST(CutRowsTest, BlocksOfScalesAreCutWithTheirRows) {
  for (const bool is_transposed : {false, true}) {
    MatmulOptions options;
    options.transpose_a = is_transposed;
    InlineOperand a(is_transposed ? Int8(256, 600) : Int8(600, 256),
                    is_transposed ? Int8(2, 5) : Int8(5, 2));
    a.blocks = BlockScaling{128, 128, false};
    const auto part = InputsOf({a, Int8(256, 3)}, options, {256, 600});
    ASSERT_TRUE(part.ok()) << part.status();
    const Matrix& scales = *Inline(part->a).scales;
    EXPECT_EQ(is_transposed ? scales.format().columns : scales.format().rows, 3u);
    EXPECT_EQ(At(scales, is_transposed ? 1 : 2, is_transposed ? 2 : 1), 9);
    EXPECT_THAT(InputsOf({a, Int8(256, 3)}, options, {64, 600}).status().ToString(),
                HasSubstr("a.scales is"));
  }
}

TEST(CutRowsTest, PackedElementsAreCutAtWholeBytes) {
  const Matrix rows = Numbered({DataType::kFp4E2M1, 256, 3, Order::kRowMajor, 0});
  auto part = InputsOf({rows, Int8(3, 3)}, {}, {128, 256});
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(Inline(part->a).data.bytes(), rows.bytes().substr(192));
  MatmulOptions transposed;
  transposed.transpose_a = true;
  const Matrix columns = Numbered({DataType::kFp4E2M1, 2, 256, Order::kRowMajor, 0});
  part = InputsOf({columns, Int8(2, 3)}, transposed, {128, 256});
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(Inline(part->a).data.bytes(),
            absl::StrCat(columns.bytes().substr(64, 64), columns.bytes().substr(192)));
  EXPECT_THAT(InputsOf({rows, Int8(3, 3)}, {}, {1, 256}).status().ToString(),
              HasSubstr("cannot be sent by themselves"));
  const Matrix odd = Numbered({DataType::kFp4E2M1, 2, 131, Order::kRowMajor, 0});
  EXPECT_FALSE(InputsOf({odd, Int8(2, 3)}, transposed, {128, 131}).ok());
}

TEST(CutRowsTest, OperandsWithoutTheseRowsAreRefused) {
  MatmulInputs inputs{Int8(10, 5), Int8(5, 3)};
  inputs.c = Int8(9, 3);
  EXPECT_THAT(InputsOf(inputs, {}, {4, 10}).status().ToString(),
              HasSubstr("c has 9 rows: it must have 10"));
  // In one part the server says it.
  EXPECT_TRUE(InputsOf(inputs, {}, {0, 10}).ok());
  const InlineOperand short_scales(Int8(10, 5), Int8(9, 1));
  EXPECT_THAT(InputsOf({short_scales, Int8(5, 3)}, {}, {4, 10}).status().ToString(),
              HasSubstr("a.scales is 9 x 1 int8"));
}

TEST(CutRowsTest, WhatOneServerAloneWouldHaveIsRefusedByName) {
  const OperandSource source = *OperandSource::Create(Int8(5, 3), std::nullopt);
  const MatmulInputs good{Int8(10, 5), source};
  EXPECT_TRUE(CheckSplit(good, {}).ok());
  const auto refused = [](const MatmulInputs& inputs, const MatmulOptions& options) {
    const absl::Status status = CheckSplit(inputs, options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  MatmulInputs inputs = good;
  inputs.a = source;
  EXPECT_THAT(refused(inputs, {}), HasSubstr("a is a matrix on a server"));
  inputs = good;
  inputs.c = OperandName{"a-1", {}};
  EXPECT_THAT(refused(inputs, {}), HasSubstr("c is a matrix on a server"));
  inputs = good;
  inputs.b = OperandName{"a-1", {}};
  EXPECT_THAT(refused(inputs, {}), HasSubstr("b is a handle of one server"));
  inputs.b = OperandName{{}, {}, std::nullopt, "w"};
  EXPECT_THAT(refused(inputs, {}), HasSubstr("b is a name"));
  inputs.b = StackedOperand{OperandName{"a-1", {}}, Int8(5, 3).format(), 0};
  EXPECT_THAT(refused(inputs, {}), HasSubstr("b is a handle"));
  inputs.b = SharedOperand{{}, Int8(5, 3).format()};
  EXPECT_THAT(refused(inputs, {}), HasSubstr("b is in memory that one server shares"));
  inputs.b = OperandName{{}, std::string(32, 'd')};
  EXPECT_TRUE(CheckSplit(inputs, {}).ok());
  inputs = good;
  inputs.bias = OperandName{"a-1", {}};
  EXPECT_THAT(refused(inputs, {}), HasSubstr("bias is a handle"));
  inputs = good;
  InlineOperand tiled(Int8(10, 32), Int8(10, 1));
  tiled.blocks = BlockScaling{32, 1, true};
  inputs.a = tiled;
  EXPECT_THAT(refused(inputs, {}), HasSubstr("a.scales is in tiles"));

  MatmulOptions options;
  options.batch = Batch{};
  EXPECT_THAT(refused(good, options), HasSubstr("batch is given"));
  options = {};
  options.determinism = Determinism::kFast;
  EXPECT_THAT(refused(good, options), HasSubstr("determinism is fast"));
  options = {};
  options.destination = KeepResult{};
  EXPECT_THAT(refused(good, options), HasSubstr("D is to stay on a server"));
  options = {};
  options.output_order = Order::kColumnMajor;
  EXPECT_THAT(refused(good, options), HasSubstr("output_order is column_major"));
  options = {};
  options.output_leading_dimension = 9;
  EXPECT_THAT(refused(good, options), HasSubstr("output_leading_dimension is 9"));
}

}  // namespace
}  // namespace gemmd::client
