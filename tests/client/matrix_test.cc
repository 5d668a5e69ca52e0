#include "client/matrix.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

MatrixFormat Format(std::uint64_t rows, std::uint64_t columns, std::uint64_t leading_dimension = 0,
                    DataType type = DataType::kF32, Order order = Order::kRowMajor) {
  return MatrixFormat{type, rows, columns, order, leading_dimension};
}

TEST(MatrixTest, SizeIsUpToTheLastElement) {
  EXPECT_EQ(*SizeBytes(Format(2, 3)), 24U);
  EXPECT_EQ(*SizeBytes(Format(2, 3, 8)), 44U);
  EXPECT_EQ(*SizeBytes(Format(2, 3, 8, DataType::kF32, Order::kColumnMajor)), 72U);
  EXPECT_EQ(*SizeBytes(Format(3, 3, 0, DataType::kInt4)), 5U);
  EXPECT_EQ(*SizeBytes(Format(3, 3, 0, DataType::kFp6E2M3)), 7U);
  EXPECT_EQ(*SizeBytes(Format(kMaxDimension, kMaxDimension, 0, DataType::kFp6E3M2)),
            3458764510599315457U);
  EXPECT_EQ(*SizeBytes(Format(1, 3, 3)), 12U);
  EXPECT_EQ(*SizeBytes(Format(0, 3)), 0U);
  EXPECT_EQ(*SizeBytes(Format(3, 0, 8, DataType::kInt4)), 0U);
}

TEST(MatrixTest, BadFormatsAreRefusedByField) {
  const std::vector<std::pair<MatrixFormat, const char*>> cases = {
      {Format(kMaxDimension + 1, 1), "rows 2147483648: up to 2147483647 are accepted"},
      {Format(0, kMaxDimension + 1), "columns 2147483648: up to 2147483647 are accepted"},
      {Format(2, 3, 2), "leading dimension 2: at least 3"},
      {Format(3, 2, 2, DataType::kF32, Order::kColumnMajor), "leading dimension 2: at least 3"},
      {Format(2, 3, UINT64_MAX), "overflows"},
      {Format(kMaxDimension, kMaxDimension, 0, DataType::kF64), "overflows"},
  };
  for (const auto& [format, message] : cases) {
    EXPECT_THAT(std::string(SizeBytes(format).status().message()), HasSubstr(message));
  }
  EXPECT_TRUE(SizeBytes(Format(kMaxDimension, kMaxDimension, 0, DataType::kInt8)).ok());
}

TEST(MatrixTest, AStacksSizeIsUpToItsLastElement) {
  EXPECT_EQ(*SizeBytes(Format(2, 3), {4, 6}), 96U);
  EXPECT_EQ(*SizeBytes(Format(2, 3), {4, 10}), 144U);
  EXPECT_EQ(*SizeBytes(Format(2, 3, 12), {4, 3}), 96U);  // beside each other
  EXPECT_EQ(*SizeBytes(Format(2, 3), {4, 0}), 24U);      // one for all
  EXPECT_EQ(*SizeBytes(Format(2, 3), {1, 10}), 24U);
  EXPECT_EQ(*SizeBytes(Format(3, 0), {4, 6}), 0U);
  EXPECT_EQ(*SizeBytes(Format(3, 3, 0, DataType::kInt4), {3, 10}), 15U);
  EXPECT_EQ(*SizeBytes(Format(3, 3, 0, DataType::kFp6E2M3), {3, 12}), 25U);
}

TEST(MatrixTest, BadStacksAreRefused) {
  const std::vector<std::pair<absl::StatusOr<std::uint64_t>, const char*>> cases = {
      {SizeBytes(Format(2, 3), {0, 6}), "count 0: a stack has at least one matrix"},
      {SizeBytes(Format(2, 3), {3, UINT64_MAX}), "overflows"},
      {SizeBytes(Format(2, 3), {UINT64_MAX, 6}), "overflows"},
      {SizeBytes(Format(3, 3, 0, DataType::kInt4), {2, 9}),
       "stride 9 of elements of 4 bits: a matrix begins at a whole byte"},
  };
  for (const auto& [size, message] : cases) {
    EXPECT_THAT(std::string(size.status().message()), HasSubstr(message));
  }
}

TEST(MatrixTest, AStackShowsEachOfItsMatrices) {
  const MatrixFormat format = Format(2, 1, 0, DataType::kInt8);
  const auto stack = Matrix::Create(format, {3, 3}, Bytes("ab.cd.ef"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_EQ(stack->view(0).bytes(), "ab");
  EXPECT_EQ(stack->view(2).bytes(), "ef");
  const auto shared = Matrix::Create(format, {3, 0}, Bytes("ab"));
  EXPECT_EQ(shared->view(2).bytes(), "ab");
  const auto empty = Matrix::Create(Format(2, 0), {3, 5}, Bytes());
  EXPECT_EQ(empty->view(2).bytes(), "");
  EXPECT_THAT(std::string(Matrix::Create(format, {3, 3}, Bytes("ab.cd.e")).status().message()),
              HasSubstr("3 matrices of 2 x 1 int8 row-major takes 8 bytes, not 7"));
}

TEST(MatrixTest, BytesMustBeThoseOfTheFormat) {
  EXPECT_TRUE(Matrix::Create(Format(1, 2), "abcdefgh").ok());
  EXPECT_THAT(std::string(Matrix::Create(Format(1, 2), "abc").status().message()),
              HasSubstr("1 x 2 f32 row-major takes 8 bytes, not 3"));
  EXPECT_FALSE(MatrixView::Create(Format(1, 2), "abcdefghi").ok());
}

TEST(MatrixTest, MovingAndCopyingKeepTheBytesWhereTheyAre) {
  const std::string bytes(4096, 'x');
  auto matrix = Matrix::Create(Format(1, 1024), bytes);
  ASSERT_TRUE(matrix.ok());
  const char* address = matrix->bytes().data();
  Matrix moved = *std::move(matrix);
  EXPECT_EQ(moved.bytes().data(), address);
  const Matrix copy = moved;
  moved = *Matrix::Create(Format(1, 1), std::string(4, 'y'));
  EXPECT_EQ(copy.bytes().data(), address);
  EXPECT_EQ(copy.bytes(), bytes);
}

TEST(MatrixTest, HoldsMemoryOfItsCallers) {
  const auto memory = std::make_shared<std::vector<float>>(4, 1.5F);
  const Bytes bytes(memory, {reinterpret_cast<const char*>(memory->data()), 16});
  {
    const auto matrix = Matrix::Create(Format(2, 2), bytes);
    ASSERT_TRUE(matrix.ok());
    EXPECT_EQ(static_cast<const void*>(matrix->bytes().data()), memory->data());
    EXPECT_EQ(memory.use_count(), 3);
  }
  EXPECT_EQ(memory.use_count(), 2);
}

TEST(BufferTest, BecomesBytesOfAnySizeUpToItsOwn) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{100}, std::uint64_t{5} << 20}) {
    Buffer buffer = Buffer::Allocate(size);
    EXPECT_EQ(buffer.size(), size);
    std::fill_n(buffer.data(), size, 'x');
    const char* const address = buffer.data();
    const Bytes bytes = std::move(buffer).Freeze(size / 2);
    EXPECT_EQ(bytes.view().data(), address);
    EXPECT_EQ(bytes.view(), std::string(size / 2, 'x'));
  }
}

TEST(NamesTest, AreReadInBothSpellings) {
  EXPECT_EQ(*ParseDataType("fp8_e4m3"), DataType::kFp8E4M3);
  EXPECT_EQ(*ParseDataType("fp8-e4m3"), DataType::kFp8E4M3);
  EXPECT_EQ(*ParseOrder("column-major"), Order::kColumnMajor);
  EXPECT_THAT(std::string(ParseOrder("diagonal").status().message()),
              HasSubstr("order 'diagonal': one of row-major, column-major is accepted"));
  EXPECT_FALSE(ParseDataType("e8m0").ok());
}

}  // namespace
}  // namespace gemmd::client
