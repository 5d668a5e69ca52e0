// Results that go to memory of their callers.
#include "client/result.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

class ResultTest : public ::testing::Test {
 protected:
  ResultTest() {
    plane_.set_type(v1::F32);
    plane_.set_rows(2);
    plane_.set_columns(3);
    expected_.rows = 2;
    expected_.columns = 3;
    expected_.type = DataType::kF32;
    expected_.into = [memory = Buffer::Of(std::shared_ptr<char>(owner_, text_.data()), 24)](
                         const MatrixFormat& /*format*/) { return memory; };
    chunk_.set_operand(v1::D);
  }

  v1::Plane plane_;
  v1::Chunk chunk_;
  ExpectedResult expected_;
  std::shared_ptr<int> owner_ = std::make_shared<int>(0);
  std::string text_ = std::string(32, '.');
};

TEST_F(ResultTest, GoesThereAndKeepsTheOwner) {
  absl::StatusOr<ResultAssembly> result = ResultAssembly::Create(plane_, expected_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->Claim(chunk_, 24).ok());
  result->Allocate();
  EXPECT_EQ(24u, result->Copy(0, {"0123456789", "abcdefghijklmn"}));
  EXPECT_EQ("0123456789abcdefghijklmn........", text_);
  expected_.into = nullptr;
  const long held = owner_.use_count();  // NOLINT(google-runtime-int): it is the standard's type
  {
    const Matrix d = std::move(*result).Take();
    EXPECT_EQ(text_.data(), d.bytes().data());
    EXPECT_LT(1, owner_.use_count());
  }
  EXPECT_LT(1, held);
}

TEST_F(ResultTest, OneThatIsLargerThanItsMemoryIsRefused) {
  plane_.set_leading_dimension(4);  // 28 bytes
  const absl::StatusOr<ResultAssembly> result = ResultAssembly::Create(plane_, expected_);
  EXPECT_EQ(absl::StatusCode::kInternal, result.status().code());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("28 bytes, but 24 are there"));
}

TEST_F(ResultTest, ItsCallerMayHaveNoMemoryForItOrRefuseIt) {
  expected_.into = [](const MatrixFormat& format) {
    EXPECT_EQ(2u, format.rows);
    EXPECT_EQ(3u, format.columns);
    return std::nullopt;
  };
  absl::StatusOr<ResultAssembly> result = ResultAssembly::Create(plane_, expected_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->Claim(chunk_, 24).ok());
  result->Allocate();
  result->Copy(0, {std::string(24, 'a')});
  EXPECT_EQ(std::string(24, 'a'), std::move(*result).Take().bytes());
  EXPECT_EQ(std::string(32, '.'), text_);
  expected_.into = [](const MatrixFormat& /*format*/) {
    return absl::InvalidArgumentError("D is not as wanted");
  };
  result = ResultAssembly::Create(plane_, expected_);
  EXPECT_EQ(absl::StatusCode::kInternal, result.status().code());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("D is not as wanted"));
}

TEST_F(ResultTest, ResultsOfABatchFollowEachOther) {
  expected_.products = 3;
  expected_.into = nullptr;
  EXPECT_EQ(3u * 6 * 8, expected_.max_bytes());
  plane_.set_leading_dimension(4);
  absl::StatusOr<ResultAssembly> result = ResultAssembly::Create(plane_, expected_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(2u * 32 + 28, result->size_bytes());
  ASSERT_TRUE(result->Claim(chunk_, 96).ok());  // with the last line's padding
  EXPECT_EQ(result->size_bytes(), result->claimed_bytes());
  result->Allocate();
  const std::string all = std::string(32, 'a') + std::string(32, 'b') + std::string(32, 'c');
  result->Copy(0, {all});
  const Matrix d = std::move(*result).Take();
  EXPECT_EQ(3u, d.stack().count);
  EXPECT_EQ(std::string(28, 'b'), d.view(1).bytes());
  EXPECT_EQ(std::string(28, 'c'), d.view(2).bytes());
}

TEST_F(ResultTest, ABatchLargerThanItsMemoryIsRefused) {
  expected_.products = 2;
  const absl::StatusOr<ResultAssembly> result = ResultAssembly::Create(plane_, expected_);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("2 matrices of 2 x 3 f32 row-major, takes 48 bytes, but 24 are there"));
}

TEST_F(ResultTest, ManyProductsHaveABoundThatDoesNotOverflow) {
  expected_.products = std::uint64_t{1} << 62;
  EXPECT_EQ(UINT64_MAX, expected_.max_bytes());
  expected_.products = 4;
  expected_.stride = 2;  // beside each other
  expected_.leading_dimension = 8;
  EXPECT_EQ((3u * 2 + 16) * 8, expected_.max_bytes());
}

TEST_F(ResultTest, ABatchInSharedMemoryIsThatMemoryWithItsStride) {
  expected_.into = nullptr;
  expected_.products = 2;
  expected_.stride = 8;
  const std::string memory(60, '.');
  expected_.shared = Bytes(owner_, memory);
  v1::MatmulResponse response;
  *response.mutable_d() = plane_;
  response.mutable_receipt()->set_products(2);
  const PayloadViews payload;
  const auto decode = [&] {
    return DecodeResult(
        {response.receipt(), response.d(), response.handle(), response.payload(), payload},
        expected_);
  };
  const absl::StatusOr<Answer> answer = decode();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(56u, answer->d->bytes().size());
  EXPECT_EQ(memory.data() + 32, answer->d->view(1).bytes().data());
  expected_.shared = Bytes(owner_, absl::string_view(memory).substr(0, 55));
  EXPECT_THAT(std::string(decode().status().message()),
              HasSubstr("takes 56 bytes, but 55 of shared memory are there"));
  response.mutable_receipt()->set_products(0);
  EXPECT_EQ(absl::StatusCode::kUnimplemented, decode().status().code());
}

TEST_F(ResultTest, AServerThatIsOlderThanBatchesGivesNoResult) {
  v1::Receipt receipt;
  EXPECT_TRUE(CheckProducts(receipt, expected_).ok());
  expected_.products = 3;
  for (const std::uint64_t products : {0, 1, 4}) {
    receipt.set_products(products);
    const absl::Status status = CheckProducts(receipt, expected_);
    EXPECT_EQ(absl::StatusCode::kUnimplemented, status.code());
    EXPECT_THAT(std::string(status.message()), HasSubstr("older than batches of products"));
  }
  receipt.set_products(3);
  EXPECT_TRUE(CheckProducts(receipt, expected_).ok());
  const absl::Status refused =
      absl::InvalidArgumentError("payload of a: a chunk of 72 bytes is at offset 0");
  EXPECT_EQ(absl::StatusCode::kUnimplemented, RefusalOf(refused, expected_).code());
  const absl::Status other = absl::InvalidArgumentError("a.data.rows is 0: must be 1 to 2");
  EXPECT_EQ(other, RefusalOf(other, expected_));
  expected_.products = 0;
  EXPECT_EQ(refused, RefusalOf(refused, expected_));
}

TEST_F(ResultTest, OneThatIsNotAskedForIsRefused) {
  plane_.set_columns(4);
  EXPECT_EQ(absl::StatusCode::kInternal, ResultAssembly::Create(plane_, expected_).status().code());
}

}  // namespace
}  // namespace gemmd::client
