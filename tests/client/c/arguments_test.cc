// Wrong arguments of the C interface: each is refused by field, value and limit, and by nothing
// else than a status.
#include <cstddef>
#include <functional>
#include <limits>

#include "tests/client/c/c_fixture.h"

namespace gemmd {
namespace {

class ArgumentsTest : public CTest {
 protected:
  ~ArgumentsTest() override { gemmd_matrix_free(matrix_); }

  gemmd_operand a_operand_ = OperandOf(a_);
  gemmd_operand b_operand_ = OperandOf(b_);
  gemmd_matmul_options options_ = GEMMD_MATMUL_OPTIONS_INIT;
  gemmd_matrix* matrix_ = nullptr;

  std::string Matmul() {
    gemmd_result* result = nullptr;
    gemmd_error* error = nullptr;
    const gemmd_code code =
        gemmd_matmul(client_, &a_operand_, &b_operand_, &options_, &result, &error);
    EXPECT_EQ(code == GEMMD_OK, result != nullptr);
    gemmd_result_free(result);
    return Told(code, error);
  }

  // Multiplies with one thing wrong, which is mended afterwards.
  template <typename Value>
  std::string With(Value& place, Value wrong) {
    const Value right = std::exchange(place, wrong);
    std::string told = Matmul();
    place = right;
    return told;
  }
};

TEST_F(ArgumentsTest, OperandsOfAProduct) {
  EXPECT_EQ("OK", Matmul());
  EXPECT_EQ(
      "INVALID_ARGUMENT: a.size is 7: must be 32 to 4096; the struct's _INIT macro sets it "
      "[a.size, 4096]",
      With<std::size_t>(a_operand_.size, 7));
  EXPECT_EQ("INVALID_ARGUMENT: b has 0 of array, matrix and name: it must have one [b, -1]",
            With<const gemmd_array*>(b_operand_.array, nullptr));
  EXPECT_EQ("INVALID_ARGUMENT: b has 2 of array, matrix and name: it must have one [b, -1]",
            With<const char*>(b_operand_.name, "@w"));
  EXPECT_EQ(
      "INVALID_ARGUMENT: a.array.size is 0: must be 56 to 4096; the struct's _INIT macro sets it "
      "[a.array.size, 4096]",
      With<std::size_t>(a_.size, 0));
  EXPECT_EQ(
      "INVALID_ARGUMENT: a.array.size is 18446744073709551615: must be 56 to 4096; the struct's "
      "_INIT macro sets it [a.array.size, 4096]",
      With<std::size_t>(a_.size, std::numeric_limits<std::size_t>::max()));
  for (const std::int32_t dtype : {0, 3, 10, 11, 99, -1}) {
    EXPECT_EQ("INVALID_ARGUMENT: a.array.dtype is " + std::to_string(dtype) +
                  ": one of 1 (f64), 2 (f32), 4 (f16), 5 (bf16), 6 (int8), 7 (int32), 8 (fp8_e4m3) "
                  "and 9 (fp8_e5m2) is accepted [a.array.dtype, -1]",
              With(a_.dtype, dtype));
  }
  EXPECT_EQ(
      "INVALID_ARGUMENT: a.array.rows is -1: must be 0 to 2147483647 [a.array.rows, 2147483647]",
      With<std::int64_t>(a_.rows, -1));
  EXPECT_EQ(
      "INVALID_ARGUMENT: b.array.columns is 2147483648: must be 0 to 2147483647 "
      "[b.array.columns, 2147483647]",
      With<std::int64_t>(b_.columns, std::int64_t{1} << 31));
  EXPECT_EQ("INVALID_ARGUMENT: a.array.data is NULL: it has 2 x 3 f32 row-major [a.array.data, -1]",
            With<void*>(a_.data, nullptr));
}

TEST_F(ArgumentsTest, Strides) {
  EXPECT_EQ(
      "INVALID_ARGUMENT: a.array.row_stride is -3: must be 0 or more [a.array.row_stride, -1]",
      With<std::int64_t>(a_.row_stride, -3));
  const std::string others =
      ": one must be 1, and the other the length of a row or column or more; a copy of the matrix "
      "has such strides [a.array.row_stride, -1]";
  for (const auto& [rows, columns] :
       {std::pair(2, 1), std::pair(6, 2), std::pair(1, 1), std::pair(0, 1), std::pair(3, 0)}) {
    a_.row_stride = rows;
    a_.column_stride = columns;
    EXPECT_EQ("INVALID_ARGUMENT: a.array.row_stride is " + std::to_string(rows) +
                  " and column_stride is " + std::to_string(columns) + others,
              Matmul());
  }
  a_.column_stride = 1;
  EXPECT_EQ(
      "INVALID_ARGUMENT: a.array is 2 x 3 f32 row-major (leading dimension 9223372036854775807): "
      "leading dimension 9223372036854775807 with 2 lines: the size in bytes overflows [a.array, "
      "-1]",
      With<std::int64_t>(a_.row_stride, std::numeric_limits<std::int64_t>::max()));
}

TEST_F(ArgumentsTest, OptionsOfAProduct) {
  EXPECT_EQ("INVALID_ARGUMENT: options.activation is 4: must be 0 to 3 [options.activation, 3]",
            With(options_.activation, 4));
  EXPECT_EQ("INVALID_ARGUMENT: options.determinism is -1: must be 0 to 1 [options.determinism, 1]",
            With(options_.determinism, -1));
  EXPECT_EQ("INVALID_ARGUMENT: options.priority is 3: must be 0 to 2 [options.priority, 2]",
            With(options_.priority, 3));
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.timeout_ms is -1: must be 0 to 31536000000 [options.timeout_ms, "
      "31536000000]",
      With<std::int64_t>(options_.timeout_ms, -1));
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.beta is 2, and options.c is NULL: it is needed [options.beta, -1]",
      With(options_.beta, 2.0));
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.lease_ms is 5, and options.keep_on_server is false: it is of a D "
      "that stays [options.lease_ms, -1]",
      With<std::int64_t>(options_.lease_ms, 5));
  EXPECT_EQ(
      "FAILED_PRECONDITION: kernel is \"imagined\": this server has no kernel of that name "
      "[kernel, -1]",
      With<const char*>(options_.kernel, "imagined"));
  std::vector<float> d_values(6);
  gemmd_array d = ArrayOf(d_values, 3, 2);
  options_.d = &d;
  EXPECT_EQ("INVALID_ARGUMENT: options.d.rows is 3: D has 2 [options.d.rows, -1]", Matmul());
  d.rows = 2;
  d.columns = 3;
  EXPECT_EQ("INVALID_ARGUMENT: options.d.columns is 3: D has 2 [options.d.columns, -1]", Matmul());
  d.columns = 2;
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.output_type is 1: options.d has dtype 2 [options.output_type, -1]",
      With<std::int32_t>(options_.output_type, GEMMD_F64));
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.keep_on_server is true, and options.d is given: D goes to one "
      "place [options.keep_on_server, -1]",
      With(options_.keep_on_server, true));
  EXPECT_EQ("OK", Matmul());
}

TEST_F(ArgumentsTest, Batches) {
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.batch_count is 16777217: must be 0 to 16777216 "
      "[options.batch_count, 16777216]",
      With<std::int64_t>(options_.batch_count, (1 << 24) + 1));
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.b_batch_stride is 6, and options.batch_count is 0: a stride is of "
      "a batch [options.b_batch_stride, -1]",
      With<std::int64_t>(options_.b_batch_stride, 6));
  std::vector<float> d_values(4);
  gemmd_array d = ArrayOf(d_values, 2, 2);
  options_.d = &d;
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.d_batch_stride is 4, and options.batch_count is 0: a stride is of "
      "a batch [options.d_batch_stride, -1]",
      With<std::int64_t>(options_.d_batch_stride, 4));
  options_.batch_count = 2;
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.a_batch_stride is -6: must be 0 to 9223372036854775807 "
      "[options.a_batch_stride, 9223372036854775807]",
      With<std::int64_t>(options_.a_batch_stride, -6));
  const std::string overflows =
      ": stride 9223372036854775807 with 2 matrices: the size in bytes overflows [, -1]";
  EXPECT_EQ("INVALID_ARGUMENT: a" + overflows,
            With(options_.a_batch_stride, std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ("INVALID_ARGUMENT: options.d" + overflows,
            With(options_.d_batch_stride, std::numeric_limits<std::int64_t>::max()));
}

// As a program passes it that was compiled before there were batches.
TEST_F(ArgumentsTest, AStructOfAnEarlierVersionIsTaken) {
  options_.size = offsetof(gemmd_matmul_options, batch_count);
  options_.batch_count = -1;  // it is not its memory
  EXPECT_EQ("OK", Matmul());
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.size is 111: must be 112 to 4096; the struct's _INIT macro sets "
      "it [options.size, 4096]",
      With<std::size_t>(options_.size, options_.size - 1));
  options_ = GEMMD_MATMUL_OPTIONS_INIT;
  gemmd_result* result = nullptr;
  ASSERT_EQ(GEMMD_OK, gemmd_matmul(client_, &a_operand_, &b_operand_, &options_, &result, nullptr));
  gemmd_receipt receipt = GEMMD_RECEIPT_INIT;
  receipt.size = offsetof(gemmd_receipt, products);
  receipt.products = 77;
  EXPECT_EQ(GEMMD_OK, gemmd_result_receipt(result, &receipt, nullptr));
  EXPECT_EQ(1, receipt.attempts);
  EXPECT_EQ(77u, receipt.products);
  gemmd_result_free(result);
}

TEST_F(ArgumentsTest, AStructOfALaterVersionIsTakenWhereItsNewFieldsAreZero) {
  struct Later {
    gemmd_operand known;
    std::int64_t added;
  } later = {OperandOf(a_), 0};
  later.known.size = sizeof(later);
  gemmd_result* result = nullptr;
  gemmd_error* error = nullptr;
  EXPECT_EQ(GEMMD_OK, gemmd_matmul(client_, &later.known, &b_operand_, nullptr, &result, &error));
  gemmd_result_free(result);
  later.added = 1;
  EXPECT_EQ(
      "INVALID_ARGUMENT: a.size is 40: it has fields that this library does not know, which knows "
      "at most 32 bytes [a.size, 32]",
      Told(gemmd_matmul(client_, &later.known, &b_operand_, nullptr, &result, &error), error));
}

TEST_F(ArgumentsTest, NullPointers) {
  gemmd_result* result = nullptr;
  const auto null = [](const std::string& field) {
    return "INVALID_ARGUMENT: " + field + " is NULL: it is needed [" + field + ", -1]";
  };
  gemmd_error* e = nullptr;
  EXPECT_EQ(null("client"),
            Told(gemmd_matmul(nullptr, &a_operand_, &b_operand_, nullptr, &result, &e), e));
  EXPECT_EQ(null("a"), Told(gemmd_matmul(client_, nullptr, &b_operand_, nullptr, &result, &e), e));
  EXPECT_EQ(null("b"), Told(gemmd_matmul(client_, &a_operand_, nullptr, nullptr, &result, &e), e));
  EXPECT_EQ(null("result"),
            Told(gemmd_matmul(client_, &a_operand_, &b_operand_, nullptr, nullptr, &e), e));
  EXPECT_EQ(null("callback"), Told(gemmd_matmul_async(client_, &a_operand_, &b_operand_, nullptr,
                                                      nullptr, nullptr, nullptr, &e),
                                   e));
  EXPECT_EQ(null("client"), Told(gemmd_client_new(nullptr, nullptr, &e), e));
  EXPECT_EQ(null("info"), Told(gemmd_server_info_get(client_, 0, nullptr, &e), e));
  EXPECT_EQ(null("client"), Told(gemmd_put(nullptr, &a_, 0, 0, &matrix_, &e), e));
  EXPECT_EQ(null("matrix"), Told(gemmd_put(client_, &a_, 0, 0, nullptr, &e), e));
  EXPECT_EQ(null("array"), Told(gemmd_put(client_, nullptr, 0, 0, &matrix_, &e), e));
  EXPECT_EQ(null("operand"), Told(gemmd_get(client_, nullptr, 0, &result, &e), e));
  EXPECT_EQ(null("operand"), Told(gemmd_release(client_, nullptr, 0, &e), e));
  EXPECT_EQ(null("result"), Told(gemmd_result_array(nullptr, &a_, &e), e));
  EXPECT_EQ(GEMMD_INVALID_ARGUMENT,
            gemmd_matmul(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
  gemmd_client_free(nullptr, nullptr);
  gemmd_result_free(nullptr);
  gemmd_matrix_free(nullptr);
  gemmd_call_cancel(nullptr);
  gemmd_call_free(nullptr);
  gemmd_server_info_free(nullptr);
  EXPECT_EQ(GEMMD_OK, gemmd_error_code(nullptr));
}

TEST_F(ArgumentsTest, Names) {
  gemmd_error* e = nullptr;
  gemmd_result* result = nullptr;
  const gemmd_operand absent = OperandOf("@absent");
  EXPECT_EQ(GEMMD_NOT_FOUND, gemmd_get(client_, &absent, 0, &result, nullptr));
  const gemmd_operand empty = OperandOf("@");
  EXPECT_EQ(GEMMD_INVALID_ARGUMENT, gemmd_get(client_, &empty, 0, &result, &e));
  EXPECT_STREQ("operand.name", gemmd_error_field(e));
  gemmd_error_free(std::exchange(e, nullptr));
  EXPECT_EQ(
      "INVALID_ARGUMENT: operand.array is given: it must be a matrix that stays on the server, by "
      "matrix or name [operand.array, -1]",
      Told(gemmd_get(client_, &a_operand_, 0, &result, &e), e));
  EXPECT_EQ(
      "INVALID_ARGUMENT: name is a1b2c3d4-7: it has the form of a handle or a digest "
      "[name, -1]",
      Told(gemmd_set_name(client_, &absent, "a1b2c3d4-7", false, 0, &e), e));
  EXPECT_EQ("INVALID_ARGUMENT: lease_ms is -2: must be 0 to 31536000000 [lease_ms, 31536000000]",
            Told(gemmd_put(client_, &a_, -2, 0, &matrix_, &e), e));
}

TEST_F(ArgumentsTest, OptionsOfAClient) {
  const auto told = [](const std::function<void(gemmd_client_options&)>& spoil) {
    gemmd_client_options options = GEMMD_CLIENT_OPTIONS_INIT;
    spoil(options);
    gemmd_client* client = nullptr;
    gemmd_error* error = nullptr;
    const gemmd_code code = gemmd_client_new(&options, &client, &error);
    EXPECT_EQ(nullptr, client);
    return Told(code, error);
  };
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.timeout_ms is -1: must be 0 to 31536000000 [options.timeout_ms, "
      "31536000000]",
      told([](auto& options) { options.timeout_ms = -1; }));
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.retry_patience_ms is -2: must be 0 to 31536000000 "
      "[options.retry_patience_ms, 31536000000]",
      told([](auto& options) { options.retry_patience_ms = -2; }));
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.server_name is given, and options.tls is false: it belongs to TLS "
      "[options.server_name, -1]",
      told([](auto& options) { options.server_name = "here"; }));
  EXPECT_EQ(
      "INVALID_ARGUMENT: options.client_key is given without client_certificate, or the other way "
      "round: both are needed, or none [options.client_key, -1]",
      told([](auto& options) {
        options.tls = true;
        options.client_key = "key";
      }));
}

}  // namespace
}  // namespace gemmd
