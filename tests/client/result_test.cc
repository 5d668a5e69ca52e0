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
    expected_.into = Buffer::Of(std::shared_ptr<char>(owner_, text_.data()), 24);
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
  expected_.into.reset();
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

TEST_F(ResultTest, OneThatIsNotAskedForIsRefused) {
  plane_.set_columns(4);
  EXPECT_EQ(absl::StatusCode::kInternal, ResultAssembly::Create(plane_, expected_).status().code());
}

}  // namespace
}  // namespace gemmd::client
