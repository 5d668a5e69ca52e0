// Products, receipts and matrices that stay, through the C interface.
#include <cmath>
#include <regex>
#include <string>
#include <thread>

#include "tests/client/c/c_fixture.h"

namespace gemmd {
namespace {

class ProductsTest : public CTest {
 protected:
  // The product, row by row; empty where it failed.
  std::vector<float> Multiply(const gemmd_operand& a, const gemmd_operand& b,
                              const gemmd_matmul_options* options = nullptr) {
    gemmd_result* result = nullptr;
    gemmd_error* error = nullptr;
    const gemmd_code code = gemmd_matmul(client_, &a, &b, options, &result, &error);
    EXPECT_EQ("OK", Told(code, error));
    std::vector<float> values = ValuesOf(result);
    gemmd_result_free(result);
    return values;
  }

  static std::vector<float> ValuesOf(const gemmd_result* result) {
    gemmd_array array = GEMMD_ARRAY_INIT;
    if (gemmd_result_array(result, &array, nullptr) != GEMMD_OK) return {};
    EXPECT_EQ(GEMMD_F32, array.dtype);
    std::vector<float> values;
    for (std::int64_t r = 0; r < array.rows; ++r) {
      for (std::int64_t c = 0; c < array.columns; ++c) {
        values.push_back(
            static_cast<const float*>(array.data)[r * array.row_stride + c * array.column_stride]);
      }
    }
    return values;
  }
};

TEST_F(ProductsTest, RowMajor) {
  // {1 2 3; 4 5 6} * {1 0; 2 0; 1 3}
  EXPECT_EQ((std::vector<float>{8, 9, 20, 18}), Multiply(OperandOf(a_), OperandOf(b_)));
}

TEST_F(ProductsTest, StridesOfATransposedMatrixAndOfAPaddedOne) {
  std::vector<float> transposed = {1, 4, 2, 5, 3, 6};
  gemmd_array a = ArrayOf(transposed, 2, 3);
  a.row_stride = 1;
  a.column_stride = 2;
  std::vector<float> padded = {1, 0, -1, 2, 0, -1, 1, 3};
  gemmd_array b = ArrayOf(padded, 3, 2);
  b.row_stride = 3;
  b.column_stride = 1;
  EXPECT_EQ((std::vector<float>{8, 9, 20, 18}), Multiply(OperandOf(a), OperandOf(b)));
}

TEST_F(ProductsTest, AllTerms) {
  std::vector<float> c_values = {1, -100, 2, 3};
  std::vector<float> bias_values = {0.5, 1};
  const gemmd_array c_array = ArrayOf(c_values, 2, 2);
  const gemmd_array bias_array = ArrayOf(bias_values, 1, 2);
  const gemmd_operand c = OperandOf(c_array);
  const gemmd_operand bias = OperandOf(bias_array);
  gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
  options.alpha = 2;
  options.beta = 3;
  options.c = &c;
  options.bias = &bias;
  options.activation = GEMMD_ACTIVATION_RELU;
  EXPECT_EQ((std::vector<float>{19.5, 0, 46.5, 46}),
            Multiply(OperandOf(a_), OperandOf(b_), &options));
}

TEST_F(ProductsTest, TransposesAndAnotherType) {
  gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
  options.transpose_a = true;
  options.transpose_b = true;
  options.verification_vectors = 2;
  // (A^T B^T) = (B A)^T
  EXPECT_EQ((std::vector<float>{1, 2, 13, 2, 4, 17, 3, 6, 21}),
            Multiply(OperandOf(a_), OperandOf(b_), &options));
  std::vector<double> d_values(4, -1);
  std::vector<double> wide_a(a_values_.begin(), a_values_.end());
  std::vector<double> wide_b(b_values_.begin(), b_values_.end());
  a_.data = wide_a.data();
  b_.data = wide_b.data();
  a_.dtype = b_.dtype = GEMMD_F64;
  gemmd_array d = a_;
  d.data = d_values.data();
  d.columns = 2;
  options = GEMMD_MATMUL_OPTIONS_INIT;
  options.d = &d;
  EXPECT_EQ(std::vector<float>(), Multiply(OperandOf(a_), OperandOf(b_), &options));
  EXPECT_EQ((std::vector<double>{8, 9, 20, 18}), d_values);
}

TEST_F(ProductsTest, DIsWrittenWithItsStridesAndMayBeC) {
  // Fortran's order, with a row of padding.
  std::vector<float> values = {1, 1, -7, 1, 1, -7};
  gemmd_array d = ArrayOf(values, 2, 2);
  d.row_stride = 1;
  d.column_stride = 3;
  const gemmd_operand c = OperandOf(d);
  gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
  options.beta = 1;
  options.c = &c;
  options.d = &d;
  Multiply(OperandOf(a_), OperandOf(b_), &options);
  EXPECT_EQ((std::vector<float>{9, 21, -7, 10, 19, -7}), values);
}

TEST_F(ProductsTest, ABatchIsOneRequest) {
  // A and twice A, with one element between them, by B.
  std::vector<float> stack = {1, 2, 3, 4, 5, 6, -1, 2, 4, 6, 8, 10, 12};
  gemmd_array a_array = ArrayOf(stack, 2, 3);
  const gemmd_operand a = OperandOf(a_array);
  const gemmd_operand b = OperandOf(b_);
  gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
  options.batch_count = 2;
  options.a_batch_stride = 7;
  gemmd_result* result = nullptr;
  gemmd_error* error = nullptr;
  gemmd_code code = gemmd_matmul(client_, &a, &b, &options, &result, &error);
  ASSERT_EQ("OK", Told(code, error));
  gemmd_array d = GEMMD_ARRAY_INIT;
  ASSERT_EQ(GEMMD_OK, gemmd_result_array(result, &d, nullptr));
  EXPECT_EQ(2, d.rows);
  const auto* const values = static_cast<const float*>(d.data);
  EXPECT_EQ((std::vector<float>{8, 9, 20, 18, 16, 18, 40, 36}),
            std::vector<float>(values, values + 8));
  gemmd_receipt receipt = GEMMD_RECEIPT_INIT;
  EXPECT_EQ(GEMMD_OK, gemmd_result_receipt(result, &receipt, nullptr));
  EXPECT_EQ(2u, receipt.products);
  EXPECT_EQ(48, receipt.flops);
  EXPECT_EQ(stack.size() * 4 + 24, receipt.payload_bytes_in);
  gemmd_result_free(result);
}

TEST_F(ProductsTest, ResultsOfABatchAreWrittenWithTheirStride) {
  std::vector<float> values(14, -7);  // Fortran's order, 5 columns: the second one's begin there
  gemmd_array d = ArrayOf(values, 2, 2);
  d.row_stride = 1;
  d.column_stride = 3;
  std::vector<float> c_values = {100, 100, 100, 100, 200, 200, 200, 200};
  const gemmd_array c_array = ArrayOf(c_values, 2, 2);
  const gemmd_operand c = OperandOf(c_array);
  gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
  options.batch_count = 2;
  options.beta = 1;
  options.c = &c;
  options.c_batch_stride = 4;
  options.d = &d;
  options.d_batch_stride = 7;
  EXPECT_EQ(std::vector<float>(), Multiply(OperandOf(a_), OperandOf(b_), &options));
  EXPECT_EQ((std::vector<float>{108, 120, -7, 109, 118, -7, -7, 208, 220, -7, 209, 218, -7, -7}),
            values);
  values.assign(14, -7);
  options.d_batch_stride = 0;  // as whole as their lines are
  Multiply(OperandOf(a_), OperandOf(b_), &options);
  EXPECT_EQ((std::vector<float>{108, 120, -7, 109, 118, -7, 208, 220, -7, 209, 218, -7, -7, -7}),
            values);
}

TEST_F(ProductsTest, ABatchByAMatrixThatStays) {
  gemmd_matrix* weights = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_put(client_, &b_, 0, 0, &weights, nullptr));
  gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
  options.batch_count = 3;
  std::vector<float> d_values(12);
  gemmd_array d = ArrayOf(d_values, 2, 2);
  options.d = &d;
  Multiply(OperandOf(a_), OperandOf(weights), &options);
  EXPECT_EQ((std::vector<float>{8, 9, 20, 18, 8, 9, 20, 18, 8, 9, 20, 18}), d_values);
  gemmd_matrix_free(weights);
}

TEST_F(ProductsTest, WithoutElements) {
  a_.columns = b_.rows = 0;
  a_.data = b_.data = nullptr;
  EXPECT_EQ((std::vector<float>{0, 0, 0, 0}), Multiply(OperandOf(a_), OperandOf(b_)));
}

// The sum of a receipt's stages of that name, which JSON has beside their own time.
double ExposedUs(const std::string& json, const std::string& name) {
  const std::regex stage("\\{[^{}]*\"name\":\"" + name + "\"[^{}]*\\}");
  const std::regex exposed("\"exposed_us\":([0-9.e+-]+)");
  double sum = 0;
  for (std::sregex_iterator each(json.begin(), json.end(), stage), end; each != end; ++each) {
    const std::string text = each->str();
    std::smatch number;
    if (std::regex_search(text, number, exposed)) sum += std::stod(number[1]);
  }
  return sum;
}

TEST_F(ProductsTest, Receipts) {
  const gemmd_operand a = OperandOf(a_);
  const gemmd_operand b = OperandOf(b_);
  gemmd_result* result = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_matmul(client_, &a, &b, nullptr, &result, nullptr));
  gemmd_receipt receipt = GEMMD_RECEIPT_INIT;
  ASSERT_EQ(GEMMD_OK, gemmd_result_receipt(result, &receipt, nullptr));
  EXPECT_STREQ("cpu", receipt.device);
  EXPECT_EQ(24, receipt.flops);
  EXPECT_EQ(48, receipt.payload_bytes_in);
  EXPECT_EQ(16, receipt.payload_bytes_out);
  EXPECT_EQ(1, receipt.attempts);
  EXPECT_EQ(1, receipt.batch_requests);
  EXPECT_GT(receipt.total_us, receipt.round_trip_us);
  EXPECT_GT(receipt.round_trip_us, receipt.server_total_us);
  EXPECT_TRUE(std::isnan(receipt.joules));
  EXPECT_TRUE(std::isnan(receipt.verification_residual));
  const std::string json = gemmd_result_receipt_json(result);
  EXPECT_EQ(ExposedUs(json, "COMPUTE"), receipt.compute_us);
  EXPECT_EQ(ExposedUs(json, "QUEUE"), receipt.queue_us);
  EXPECT_NE(receipt.compute_us, receipt.queue_us);
  EXPECT_NE(std::string::npos, json.find("\"device\":\"cpu\""));
  EXPECT_NE(std::string::npos, json.find("\"client\":{\"attempts\":1,"));
  receipt.size = 8;
  gemmd_error* error = nullptr;
  EXPECT_EQ(GEMMD_INVALID_ARGUMENT, gemmd_result_receipt(result, &receipt, &error));
  EXPECT_STREQ("receipt.size", gemmd_error_field(error));
  gemmd_error_free(error);
  gemmd_matrix* kept = nullptr;
  EXPECT_EQ(GEMMD_FAILED_PRECONDITION, gemmd_result_matrix(result, &kept, nullptr));
  gemmd_result_free(result);
}

TEST_F(ProductsTest, MatricesThatStay) {
  gemmd_matrix* b = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_put(client_, &b_, 60000, 0, &b, nullptr));
  EXPECT_EQ(GEMMD_F32, gemmd_matrix_dtype(b));
  EXPECT_EQ(3, gemmd_matrix_rows(b));
  EXPECT_EQ(2, gemmd_matrix_columns(b));
  const std::string digest = gemmd_matrix_digest(b);
  EXPECT_EQ(64, digest.size());
  const gemmd_operand by_matrix = OperandOf(b);
  ASSERT_EQ(GEMMD_OK, gemmd_set_name(client_, &by_matrix, "@w", false, 0, nullptr));
  const std::vector<float> product = {8, 9, 20, 18};
  EXPECT_EQ(product, Multiply(OperandOf(a_), by_matrix));
  EXPECT_EQ(product, Multiply(OperandOf(a_), OperandOf("@w")));
  EXPECT_EQ(product, Multiply(OperandOf(a_), OperandOf(digest.c_str())));
  EXPECT_EQ(product, Multiply(OperandOf(a_), OperandOf(gemmd_matrix_handle(b))));

  gemmd_result* brought = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_get(client_, &by_matrix, 0, &brought, nullptr));
  EXPECT_EQ(b_values_, ValuesOf(brought));
  EXPECT_EQ(nullptr, gemmd_result_receipt_json(brought));
  gemmd_receipt receipt = GEMMD_RECEIPT_INIT;
  EXPECT_EQ(GEMMD_FAILED_PRECONDITION, gemmd_result_receipt(brought, &receipt, nullptr));
  gemmd_result_free(brought);

  ASSERT_EQ(GEMMD_OK, gemmd_release(client_, &by_matrix, 0, nullptr));
  EXPECT_EQ(GEMMD_NOT_FOUND, gemmd_get(client_, &by_matrix, 0, &brought, nullptr));
  // It comes back by itself.
  EXPECT_EQ(product, Multiply(OperandOf(a_), by_matrix));
  gemmd_matrix_free(b);
}

TEST_F(ProductsTest, APaddedMatrixIsPutWithoutItsPadding) {
  std::vector<float> padded = {1, 0, -1, 2, 0, -1, 1, 3};
  gemmd_array array = ArrayOf(padded, 3, 2);
  array.row_stride = 3;
  array.column_stride = 1;
  gemmd_matrix* b = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_put(client_, &array, 0, 0, &b, nullptr));
  EXPECT_EQ((std::vector<float>{8, 9, 20, 18}), Multiply(OperandOf(a_), OperandOf(b)));
  gemmd_matrix_free(b);
}

TEST_F(ProductsTest, DThatStays) {
  gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
  options.keep_on_server = true;
  options.lease_ms = 60000;
  const gemmd_operand a = OperandOf(a_);
  const gemmd_operand b = OperandOf(b_);
  gemmd_result* result = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_matmul(client_, &a, &b, &options, &result, nullptr));
  gemmd_array array = GEMMD_ARRAY_INIT;
  EXPECT_EQ(GEMMD_FAILED_PRECONDITION, gemmd_result_array(result, &array, nullptr));
  gemmd_matrix* d = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_result_matrix(result, &d, nullptr));
  gemmd_result_free(result);
  EXPECT_STREQ("", gemmd_matrix_digest(d));
  const gemmd_array row = ArrayOf(a_values_, 1, 2);
  EXPECT_EQ((std::vector<float>{8 + 2 * 20, 9 + 2 * 18}), Multiply(OperandOf(row), OperandOf(d)));
  gemmd_matrix_free(d);
}

TEST_F(ProductsTest, ServerInfo) {
  gemmd_server_info* info = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_server_info_get(client_, 0, &info, nullptr));
  EXPECT_STREQ(gemmd_version(), gemmd_server_info_version(info));
  ASSERT_EQ(1, gemmd_server_info_device_count(info));
  EXPECT_STREQ("cpu", gemmd_server_info_device_name(info, 0));
  EXPECT_EQ(nullptr, gemmd_server_info_device_name(info, 1));
  EXPECT_EQ(nullptr, gemmd_server_info_device_name(info, -1));
  EXPECT_NE(std::string::npos, std::string(gemmd_server_info_json(info)).find("\"limits\":{"));
  gemmd_server_info_free(info);
}

TEST_F(ProductsTest, EstimateCountsWhatTravels) {
  const gemmd_operand a = OperandOf(a_);
  const gemmd_operand b = OperandOf(b_);
  gemmd_estimated estimated = GEMMD_ESTIMATED_INIT;
  ASSERT_EQ(GEMMD_OK, gemmd_estimate(client_, &a, &b, nullptr, 0, &estimated, nullptr));
  EXPECT_EQ(2 * 2 * 3 * 2, estimated.flops);
  EXPECT_EQ(12 * sizeof(float), estimated.receive_bytes);
  EXPECT_EQ(4 * sizeof(float), estimated.send_bytes);
  EXPECT_GT(estimated.device_us, 0);
  EXPECT_NEAR(estimated.total_us,
              estimated.receive_us + estimated.queue_us + estimated.device_us + estimated.send_us,
              1e-6 * estimated.total_us);

  gemmd_error* error = nullptr;
  const gemmd_code code = gemmd_estimate(client_, &a, &a, nullptr, 0, &estimated, &error);
  EXPECT_EQ("INVALID_ARGUMENT", Told(code, error).substr(0, 16));
  estimated.size = 8;
  EXPECT_EQ(GEMMD_INVALID_ARGUMENT,
            gemmd_estimate(client_, &a, &b, nullptr, 0, &estimated, nullptr));
}

TEST_F(ProductsTest, ManyThreadsOnOneClient) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ((std::vector<float>{8, 9, 20, 18}), Multiply(OperandOf(a_), OperandOf(b_)));
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

}  // namespace
}  // namespace gemmd
