// gemmd.hpp: each of its functions against a server.
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gemmd/gemmd.hpp"
#include "gmock/gmock.h"
#include "tests/client/c/c_fixture.h"

namespace gemmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CppTest : public CTest {
 protected:
  Client Connect() {
    ClientOptions options;
    options.target = server_.address();
    return Client::Create(options).value();
  }

  Array a() { return RowMajor(a_values_.data(), 2, 3); }
  Array b() { return RowMajor(b_values_.data(), 3, 2); }

  Client cpp_ = Connect();
};

std::vector<float> ValuesOf(const Product& product) {
  const Array d = product.array().value();
  const float* const values = product.data<float>();
  return {values, values + d.rows * d.columns};
}

TEST_F(CppTest, AProductHasItsValuesAndReceipt) {
  const Result<Product> d = cpp_.Matmul(a(), b());
  ASSERT_TRUE(d.ok()) << d.status().ToString();
  EXPECT_THAT(ValuesOf(*d), ElementsAre(8, 9, 20, 18));
  EXPECT_EQ(nullptr, d->data<double>());
  EXPECT_EQ(24, d->receipt()->flops);
  EXPECT_THAT(d->receipt_json(), HasSubstr("\"flops\":24"));
  EXPECT_EQ(GEMMD_FAILED_PRECONDITION, d->matrix().status().code());
}

TEST_F(CppTest, ABatchIsOneRequest) {
  a_values_.insert(a_values_.end(), {2, 4, 6, 8, 10, 12});
  std::vector<float> bias = {1, 2, 3};
  std::vector<float> d(8);
  MatmulOptions options;
  options.bias = RowMajor(bias.data(), 1, 2);
  options.d = RowMajor(d.data(), 2, 2);
  options.batch = Batch{2, 6, 0, 0, 1, 4};
  const Result<Product> made = cpp_.Matmul(a(), b(), options);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_THAT(d, ElementsAre(9, 11, 21, 20, 18, 21, 42, 39));
  EXPECT_EQ(2u, made->receipt()->products);
}

TEST_F(CppTest, EachOptionIsGivenOn) {
  std::vector<float> c = {1, 2, 3, 4};
  std::vector<float> bias = {10, -100};
  std::vector<float> d(4);
  MatmulOptions options;
  options.alpha = 2;
  options.beta = 3;
  options.transpose_b = true;
  options.c = RowMajor(c.data(), 2, 2);
  options.bias = RowMajor(bias.data(), 1, 2);
  options.activation = Activation::kRelu;
  options.accumulate_type = Type::kF32;
  options.output_type = Type::kF32;
  options.determinism = Determinism::kFast;
  options.priority = Priority::kHigh;
  options.timeout = Milliseconds(60000);
  options.d = ColumnMajor(d.data(), 2, 2);
  // The bytes of b, read as N x K.
  const Array transposed = RowMajor(static_cast<const float*>(b_values_.data()), 2, 3);
  const Result<Product> product = cpp_.Matmul(a(), transposed, options);
  ASSERT_TRUE(product.ok()) << product.status().ToString();
  // a * {{1, 0, 2}, {0, 1, 3}} transposed is {{7, 11}, {16, 23}}.
  EXPECT_THAT(d, ElementsAre(2 * 7 + 3 + 10, 2 * 16 + 9 + 10, 0, 0));
  EXPECT_EQ(GEMMD_FAILED_PRECONDITION, product->array().status().code());

  MatmulOptions checked;
  checked.verification_vectors = 2;
  EXPECT_GE(1, cpp_.Matmul(a(), b(), checked)->receipt()->verification_residual);
  checked.verification_vectors = 65;
  EXPECT_EQ(GEMMD_INVALID_ARGUMENT, cpp_.Matmul(a(), b(), checked).status().code());
  MatmulOptions named;
  named.kernel = "none";
  const Status status = cpp_.Matmul(a(), b(), named).status();
  EXPECT_THAT(status.ToString(), HasSubstr("FAILED_PRECONDITION: kernel is \"none\""));
  EXPECT_EQ("kernel", status.field());
  EXPECT_EQ(std::nullopt, status.limit());
  EXPECT_EQ(std::nullopt, status.retry_after());
}

TEST_F(CppTest, MatricesStayByThemselvesAndByName) {
  const Matrix matrix = cpp_.Put(b(), Milliseconds(60000)).value();
  EXPECT_EQ(3, matrix.rows());
  EXPECT_EQ(2, matrix.columns());
  EXPECT_EQ(Type::kF32, matrix.type());
  EXPECT_EQ(64u, matrix.digest().size());
  EXPECT_TRUE(cpp_.SetName(matrix, "weights").ok());
  EXPECT_THAT(ValuesOf(*cpp_.Matmul(a(), "@weights")), ElementsAre(8, 9, 20, 18));
  EXPECT_THAT(ValuesOf(*cpp_.Get(matrix)), ElementsAre(1, 0, 2, 0, 1, 3));

  MatmulOptions keep;
  keep.keep_on_server = true;
  keep.lease = Milliseconds(60000);
  const Matrix kept = cpp_.Matmul(a(), matrix, keep)->matrix().value();
  EXPECT_EQ("", kept.digest());
  EXPECT_THAT(ValuesOf(*cpp_.Get(kept.handle())), ElementsAre(8, 9, 20, 18));

  EXPECT_TRUE(cpp_.Release(matrix).ok());
  EXPECT_EQ(GEMMD_NOT_FOUND, cpp_.Release("weights").code());
}

TEST_F(CppTest, ACallbackHasTheProductOrTheStatus) {
  for (const bool is_good : {true, false}) {
    std::promise<Result<Product>> told;
    MatmulOptions options;
    if (!is_good) options.kernel = "none";
    Result<PendingProduct> pending = cpp_.MatmulAsync(
        a(), b(), options, [&told](Result<Product> d) { told.set_value(std::move(d)); });
    ASSERT_TRUE(pending.ok()) << pending.status().ToString();
    EXPECT_EQ(is_good, told.get_future().get().ok());
    pending->Cancel();
  }
  // Where nothing begins nobody is called.
  MatmulOptions negative;
  negative.timeout = Milliseconds(-1);
  const auto never = [](const Result<Product>&) { FAIL(); };
  EXPECT_EQ("options.timeout_ms", cpp_.MatmulAsync(a(), b(), negative, never).status().field());
}

TEST_F(CppTest, AClientIsMovedAndItsEndEndsWhatIsUnderWay) {
  std::vector<float> large(2000 * 2000, 1);
  std::promise<Status> told;
  {
    Client moved = std::move(cpp_);
    const Array x = RowMajor(static_cast<const float*>(large.data()), 2000, 2000);
    ASSERT_TRUE(moved
                    .MatmulAsync(x, x, {},
                                 [&told](const Result<Product>& d) { told.set_value(d.status()); })
                    .ok());
  }
  const Status status = told.get_future().get();
  EXPECT_TRUE(status.ok() || status.code() == GEMMD_CANCELLED) << status.ToString();
}

TEST_F(CppTest, FilesOfWeightsAreOpened) {
  EXPECT_EQ(GEMMD_NOT_FOUND, WeightFile::Open("/no/such/file").status().code());
}

TEST_F(CppTest, TheServerSaysWhatAProductWouldTake) {
  const gemmd_estimated estimated = cpp_.Estimate(a(), b()).value();
  EXPECT_EQ(24, estimated.flops);
  EXPECT_GT(estimated.total_us, 0);
  EXPECT_EQ(GEMMD_INVALID_ARGUMENT, cpp_.Estimate(a(), a()).status().code());
}

TEST_F(CppTest, TheServerSaysWhatItIs) {
  const ServerInfo info = cpp_.Info().value();
  EXPECT_EQ(gemmd_version(), info.version);
  EXPECT_THAT(info.json, HasSubstr("\"devices\""));
}

TEST(CppStatusTest, AResultHasAValueOrThrows) {
  Result<std::unique_ptr<int>> good = std::make_unique<int>(3);
  EXPECT_TRUE(good);
  EXPECT_EQ(3, **good);
  EXPECT_EQ("OK", good.status().ToString());
  EXPECT_EQ(3, *std::move(good).value());
  const Result<int> bad = Status(GEMMD_UNAVAILABLE, "gone");
  EXPECT_FALSE(bad);
  try {
    static_cast<void>(bad.value());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ("UNAVAILABLE: gone", error.what());
    EXPECT_EQ(GEMMD_UNAVAILABLE, error.status().code());
  }
}

TEST(CppStatusTest, ConstMemoryIsReadAlone) {
  static_assert(std::is_same_v<Array, decltype(RowMajor(std::declval<const double*>(), 1, 1))>);
  static_assert(std::is_same_v<MutableArray, decltype(ColumnMajor(std::declval<double*>(), 1, 1))>);
  static_assert(!std::is_convertible_v<Array, MutableArray>);
  const std::int8_t x = 0;
  const gemmd_array rows = RowMajor(&x, 5, 7).c();
  const gemmd_array columns = ColumnMajor(&x, 5, 7, 9).c();
  EXPECT_EQ(GEMMD_INT8, rows.dtype);
  EXPECT_THAT((std::vector<std::int64_t>{rows.row_stride, rows.column_stride}), ElementsAre(7, 1));
  EXPECT_THAT((std::vector<std::int64_t>{columns.row_stride, columns.column_stride}),
              ElementsAre(1, 9));
}

}  // namespace
}  // namespace gemmd
