// From ModelInferRequest to the call: what it means, and what is refused.
#include "server/rpc/oip/infer_request.h"

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/infer_request_check.h"

namespace gemmd {
namespace {

using absl::StatusCode;
using inference::ModelInferRequest;
using ::testing::HasSubstr;

InferModel Matmul(DataType type = DataType::kF32) { return {"matmul", {type}, std::nullopt}; }

// An operand of 3 x 2.
InferModel Linear(bool is_transposed = false) {
  InferModel model{"linear/w", {DataType::kF32}, InferResident()};
  model.resident->name = "w";
  model.resident->rows = 3;
  model.resident->columns = 2;
  model.resident->is_transposed = is_transposed;
  return model;
}

// A request, and what it maps to.
class InferRequestTest : public ::testing::Test {
 protected:
  InferRequestTest() { limits_.result_bytes = 1 << 20; }

  ModelInferRequest::InferInputTensor* Add(const std::string& name,
                                           const std::vector<std::int64_t>& shape,
                                           const std::string& data,
                                           const std::string& datatype = "FP32") {
    auto* const input = AddShared(name, shape, datatype);
    input->clear_parameters();
    request_.add_raw_input_contents(data);
    return input;
  }
  // At offset 64 of the region "r".
  ModelInferRequest::InferInputTensor* AddShared(const std::string& name,
                                                 const std::vector<std::int64_t>& shape,
                                                 const std::string& datatype = "FP32",
                                                 std::int64_t bytes = 0, std::int64_t offset = 64) {
    auto* const input = request_.add_inputs();
    input->set_name(name);
    input->set_datatype(datatype);
    for (const std::int64_t each : shape) input->add_shape(each);
    auto& parameters = *input->mutable_parameters();
    parameters["shared_memory_region"].set_string_param("r");
    parameters["shared_memory_offset"].set_int64_param(offset);
    parameters["shared_memory_byte_size"].set_int64_param(bytes);
    return input;
  }

  absl::StatusOr<InferProduct> Map(const InferModel& model = Matmul()) {
    bytes_ = request_.SerializeAsString();
    parsed_.Clear();
    EXPECT_TRUE(ParseAroundPayload({bytes_}, &parsed_, &raw_));
    return MapRequest(parsed_, raw_, model, limits_,
                      [](const std::string& name) -> absl::StatusOr<std::string> {
                        if (name == "r") return "secret";
                        return absl::NotFoundError(name + " is unknown");
                      });
  }
  std::string Refusal(const InferModel& model = Matmul(),
                      StatusCode code = StatusCode::kInvalidArgument) {
    const absl::Status status = Map(model).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }
  static std::string BytesOf(const PayloadChunk& chunk) { return absl::StrJoin(chunk.pieces, ""); }

  RequestLimits limits_;
  ModelInferRequest request_;
  std::string bytes_;
  ModelInferRequest parsed_;
  PayloadViews raw_;
};

TEST_F(InferRequestTest, IsTheCallThatMatmulWouldBe) {
  request_.set_id("seven");
  Add("B", {3, 2}, std::string(24, 'b'));
  Add("A", {5, 3}, std::string(60, 'a'));
  const absl::StatusOr<InferProduct> product = Map();
  ASSERT_TRUE(product.ok()) << product.status();
  const MatmulCall& call = product->call;
  EXPECT_EQ(call.a->data.rows, 5U);
  EXPECT_EQ(call.a->data.columns, 3U);
  EXPECT_EQ(call.b->data.columns, 2U);
  EXPECT_EQ(call.alpha, 1);
  EXPECT_EQ(call.beta, 0);
  EXPECT_EQ(call.start_by, kNoDeadline);
  EXPECT_EQ(product->answer.id, "seven");
  EXPECT_EQ(product->answer.shape, (std::vector<std::int64_t>{5, 2}));
  ASSERT_EQ(product->payload.size(), 2U);
  // In the order of the planes, where the contents came in the order of the inputs.
  EXPECT_EQ(product->payload[0].operand, OperandName::kA);
  EXPECT_EQ(BytesOf(product->payload[0]), std::string(60, 'a'));
  EXPECT_EQ(BytesOf(product->payload[1]), std::string(24, 'b'));
  EXPECT_GE(product->payload[0].pieces[0].data(), bytes_.data());
}

TEST_F(InferRequestTest, ParametersAreTheHeadersFields) {
  auto& parameters = *request_.mutable_parameters();
  parameters["transpose_a"].set_bool_param(true);
  parameters["transpose_b"].set_bool_param(true);
  parameters["alpha"].set_int64_param(2);
  parameters["beta"].set_double_param(0.5);
  parameters["activation"].set_string_param("gelu_tanh");
  parameters["output_type"].set_string_param("FP64");
  parameters["kernel"].set_string_param("cpu/panel_f32");
  parameters["determinism"].set_string_param("fast");
  parameters["verify"].set_uint64_param(3);
  parameters["priority"].set_uint64_param(1);
  parameters["timeout"].set_int64_param(1500);
  parameters["receipt"].set_bool_param(true);
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  Add("A", {3, 5}, std::string(60, 'a'));
  Add("B", {2, 3}, std::string(24, 'b'));
  const absl::StatusOr<InferProduct> product = Map();
  ASSERT_TRUE(product.ok()) << product.status();
  const MatmulCall& call = product->call;
  EXPECT_TRUE(call.transpose_a);
  EXPECT_TRUE(call.transpose_b);
  EXPECT_EQ(call.alpha, 2);
  EXPECT_EQ(call.beta, 0.5);
  EXPECT_EQ(call.activation, Activation::kGeluTanh);
  EXPECT_EQ(call.output_type, DataType::kF64);
  EXPECT_EQ(call.kernel, "cpu/panel_f32");
  EXPECT_EQ(call.determinism, Determinism::kFast);
  EXPECT_EQ(call.verification_vectors, 3U);
  EXPECT_EQ(call.priority, Priority::kHigh);
  EXPECT_EQ(product->queue_timeout_us, 1500U);
  EXPECT_TRUE(product->answer.wants_receipt);
  EXPECT_TRUE(product->answer.wants_final_response);
  EXPECT_EQ(product->answer.shape, (std::vector<std::int64_t>{5, 2}));
}

TEST_F(InferRequestTest, PrioritiesAreLevelsOfThree) {
  Add("A", {1, 1}, "aaaa");
  Add("B", {1, 1}, "bbbb");
  const std::vector<Priority> expected = {Priority::kNormal, Priority::kHigh, Priority::kNormal,
                                          Priority::kLow};
  for (std::size_t level = 0; level < expected.size(); ++level) {
    (*request_.mutable_parameters())["priority"].set_uint64_param(level);
    EXPECT_EQ(Map()->call.priority, expected[level]) << level;
  }
  (*request_.mutable_parameters())["priority"].set_uint64_param(4);
  EXPECT_THAT(Refusal(), HasSubstr("'priority' is 4; it must be an integer of 0 to 3"));
}

TEST_F(InferRequestTest, BetaIsOneWhereCComesAlone) {
  Add("A", {1, 1}, "aaaa");
  Add("B", {1, 1}, "bbbb");
  Add("C", {1, 1}, "cccc");
  EXPECT_EQ(Map()->call.beta, 1);
  (*request_.mutable_parameters())["beta"].set_double_param(0);
  EXPECT_EQ(Map()->call.beta, 0);
}

TEST_F(InferRequestTest, AStackIsItsRows) {
  Add("A", {2, 3, 1}, std::string(24, 'a'));
  Add("B", {1, 4}, std::string(16, 'b'));
  const absl::StatusOr<InferProduct> product = Map();
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->call.a->data.rows, 6U);
  EXPECT_EQ(product->answer.shape, (std::vector<std::int64_t>{2, 3, 4}));
  (*request_.mutable_parameters())["transpose_a"].set_bool_param(true);
  EXPECT_THAT(Refusal(), HasSubstr("of input 'A' for model \"matmul\"; it must have 2 dimensions"));
}

TEST_F(InferRequestTest, ALinearModelNamesItsOperand) {
  Add("A", {4, 3}, std::string(48, 'a'));
  const absl::StatusOr<InferProduct> product = Map(Linear());
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->call.b->source, Source::kResident);
  EXPECT_EQ(product->call.b->resident.name, "w");
  EXPECT_FALSE(product->call.b->has_data);
  EXPECT_FALSE(product->call.transpose_b);
  EXPECT_EQ(product->answer.shape, (std::vector<std::int64_t>{4, 2}));
  EXPECT_THAT(Refusal(Linear(true)), HasSubstr("op(A) is 4 x 3 and op(B) is 2 x 3"));
  (*request_.mutable_parameters())["transpose_b"].set_bool_param(false);
  EXPECT_TRUE(Map(Linear(true)).ok());
}

TEST_F(InferRequestTest, TypedContentsBecomeRaw) {
  for (const char* name : {"A", "B"}) {
    auto* const input = request_.add_inputs();
    input->set_name(name);
    input->set_datatype("INT8");
    input->add_shape(1);
    input->add_shape(1);
    input->mutable_contents()->add_int_contents(name[0] == 'A' ? -1 : 127);
  }
  absl::StatusOr<InferProduct> mapped = Map(Matmul(DataType::kInt8));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  const InferProduct product = *std::move(mapped);  // its views hold
  EXPECT_EQ(BytesOf(product.payload[0]), "\xff");
  EXPECT_EQ(BytesOf(product.payload[1]), "\x7f");
  request_.mutable_inputs(1)->mutable_contents()->set_int_contents(0, 128);
  EXPECT_THAT(Refusal(Matmul(DataType::kInt8)), HasSubstr("128 in int_contents"));
  request_.mutable_inputs(1)->mutable_contents()->set_int_contents(0, -129);
  EXPECT_THAT(Refusal(Matmul(DataType::kInt8)), HasSubstr("-129 in int_contents"));
}

TEST_F(InferRequestTest, HalfTypesHaveNoTypedContents) {
  for (const char* name : {"A", "B"}) {
    auto* const input = request_.add_inputs();
    input->set_name(name);
    input->set_datatype("BF16");
    input->add_shape(1);
    input->add_shape(1);
    input->mutable_contents()->add_fp32_contents(1);
  }
  EXPECT_THAT(Refusal(Matmul(DataType::kBf16)), HasSubstr("no typed contents for it"));
}

TEST_F(InferRequestTest, TooFewTypedContentsAreToldHowManyThereMustBe) {
  for (const char* name : {"A", "B"}) {
    auto* const input = request_.add_inputs();
    input->set_name(name);
    input->set_datatype("FP32");
    for (const int size : {3, 1, 1}) input->add_shape(size);
    input->mutable_contents()->add_fp32_contents(1);
  }
  EXPECT_EQ(Refusal(), "input 'A' has 1 elements in fp32_contents; its shape [3,1,1] takes 3");
}

TEST_F(InferRequestTest, SharedTensorsAreOfTheCallersRegion) {
  AddShared("A", {2, 2}, "FP32", 16);
  AddShared("B", {2, 2}, "FP32", 16, 80);
  auto* const d = request_.add_outputs();
  d->set_name("D");
  (*d->mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*d->mutable_parameters())["shared_memory_byte_size"].set_uint64_param(99);
  const absl::StatusOr<InferProduct> product = Map();
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->call.a->source, Source::kShared);
  EXPECT_EQ(product->call.a->shared.region, "secret");
  EXPECT_EQ(product->call.a->shared.offset, 64U);
  ASSERT_TRUE(product->call.output.has_value());
  EXPECT_EQ(product->call.output->region, "secret");
  EXPECT_EQ(product->answer.shared->bytes, 16U);  // what it takes, not what there is
  EXPECT_TRUE(product->payload.empty());
  (*d->mutable_parameters())["shared_memory_byte_size"].set_uint64_param(15);
  EXPECT_THAT(Refusal(), HasSubstr("'shared_memory_byte_size' of output 'D' is 15"));
}

TEST_F(InferRequestTest, AnUnknownRegionIsNotFound) {
  AddShared("A", {2, 2}, "FP32", 16);
  AddShared("B", {2, 2}, "FP32", 16);
  (*request_.mutable_inputs(1)->mutable_parameters())["shared_memory_region"].set_string_param("x");
  EXPECT_EQ(Refusal(Matmul(), StatusCode::kNotFound), "input 'B': x is unknown");
}

TEST_F(InferRequestTest, SharedMemoryHasTheBytesOfTheShape) {
  AddShared("A", {2, 2}, "FP32", 15);
  Add("B", {2, 2}, std::string(16, 'b'));
  EXPECT_THAT(Refusal(), HasSubstr("unexpected byte size 15 of input 'A'; shape [2,2] of FP32 "
                                   "takes 16"));
}

TEST_F(InferRequestTest, ScalesLieBehindTheirMatrix) {
  AddShared("A", {4, 4}, "INT8", 16, 64);
  AddShared("A_SCALE", {4}, "FP32", 16, 80);
  Add("B", {4, 1}, "bbbb", "INT8");
  const absl::StatusOr<InferProduct> product = Map(Matmul(DataType::kInt8));
  ASSERT_TRUE(product.ok()) << product.status();
  ASSERT_TRUE(product->call.a->scales.has_value());
  EXPECT_EQ(product->call.a->scales->rows, 4U);
  EXPECT_EQ(product->call.a->scales->columns, 1U);
  auto& parameters = *request_.mutable_inputs(1)->mutable_parameters();
  parameters["shared_memory_offset"].set_int64_param(81);
  EXPECT_THAT(Refusal(Matmul(DataType::kInt8)), HasSubstr("must come as input 'A' does"));
  parameters.clear();
  request_.clear_raw_input_contents();
  request_.add_raw_input_contents(std::string(16, 's'));
  request_.add_raw_input_contents("bbbb");
  EXPECT_THAT(Refusal(Matmul(DataType::kInt8)), HasSubstr("must come as input 'A' does"));
}

// As numpy.matmul multiplies each A by its B.
TEST_F(InferRequestTest, AStackOfBIsABatch) {
  Add("A", {2, 5, 4, 3}, std::string(480, 'a'));
  Add("B", {2, 5, 3, 1}, std::string(120, 'b'));
  Add("C", {2, 5, 4, 1}, std::string(160, 'c'));
  Add("BIAS", {1}, "bias");
  const absl::StatusOr<InferProduct> product = Map();
  ASSERT_TRUE(product.ok()) << product.status();
  const MatmulCall& call = product->call;
  EXPECT_EQ(call.a->data.rows, 4U);
  EXPECT_EQ(call.a->data.columns, 3U);
  ASSERT_TRUE(call.batch.has_value());
  EXPECT_EQ(call.batch->count, 10U);
  EXPECT_EQ(call.batch->a_stride, 12U);
  EXPECT_EQ(call.batch->b_stride, 3U);
  EXPECT_EQ(call.batch->c_stride, 4U);
  EXPECT_EQ(call.batch->bias_stride, 0U);
  EXPECT_EQ(product->answer.shape, (std::vector<std::int64_t>{2, 5, 4, 1}));
}

// A transposed one too.
TEST_F(InferRequestTest, AStackOfBMayShareA) {
  Add("A", {3, 4}, std::string(48, 'a'));
  Add("B", {7, 3, 2}, std::string(168, 'b'));
  (*request_.mutable_parameters())["transpose_a"].set_bool_param(true);
  const absl::StatusOr<InferProduct> product = Map();
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->call.batch->count, 7U);
  EXPECT_EQ(product->call.batch->a_stride, 0U);
  EXPECT_EQ(product->call.batch->b_stride, 6U);
  EXPECT_EQ(product->answer.shape, (std::vector<std::int64_t>{7, 4, 2}));
}

TEST_F(InferRequestTest, AStackOfBThatFitsNoAIsRefused) {
  Add("A", {2, 1, 3}, std::string(24, 'a'));
  Add("B", {3, 3, 1}, std::string(36, 'b'));
  EXPECT_EQ(Refusal(),
            "unexpected shape [2,1,3] of input 'A' for model \"matmul\"; B is a stack of shape "
            "[3], and A must be one of as many matrices, or one matrix");
}

TEST_F(InferRequestTest, AStackOfBIsBounded) {
  Add("A", {1, 1}, "aaaa");
  Add("B", {4097, 4096, 1, 1}, "");
  EXPECT_EQ(Refusal(),
            "unexpected shape [4097,4096,1,1] of input 'B' for model \"matmul\"; it must be a "
            "stack of 1 to 16777216 matrices");
  request_.mutable_inputs(1)->set_shape(1, 0);
  EXPECT_THAT(Refusal(), HasSubstr("it must be a stack of 1 to 16777216 matrices"));
}

TEST_F(InferRequestTest, AStackOfBHasNoScales) {
  Add("A", {1, 2}, "aa");
  Add("B", {3, 2, 1}, "bbbbbb");
  Add("B_SCALE", {1}, "bbbb");
  for (auto& input : *request_.mutable_inputs()) {
    input.set_datatype(input.name() == "B_SCALE" ? "FP32" : "INT8");
  }
  EXPECT_EQ(Refusal(Matmul(DataType::kInt8)),
            "input 'B_SCALE' comes, and input 'B' is a stack; scales are those of one product");
}

TEST_F(InferRequestTest, AStackOfBHasAllItsBytes) {
  Add("A", {2, 1, 3}, std::string(24, 'a'));
  Add("B", {2, 3, 1}, std::string(12, 'b'));
  EXPECT_THAT(Refusal(), HasSubstr("unexpected byte size 12 of input 'B'; shape [2,3,1] of FP32 "
                                   "takes 24"));
}

TEST_F(InferRequestTest, AResultThatNoAnswerCarriesIsRefused) {
  Add("A", {512, 1}, std::string(2048, 'a'));
  Add("B", {1, 513}, std::string(2052, 'b'));
  EXPECT_THAT(Refusal(), HasSubstr("output 'D' of shape [512,513] of FP32 does not fit"));
  limits_.result_bytes = 512 * 513 * 4;
  EXPECT_TRUE(Map().ok());
}

// No product of sizes passes its type's range, whatever a client says.
TEST_F(InferRequestTest, HugeShapesAreRefusedAsTheyAre) {
  constexpr std::int64_t kMost = 2147483647;
  Add("A", {kMost, kMost}, "a");
  Add("B", {kMost, kMost}, "b");
  EXPECT_THAT(Refusal(), HasSubstr("unexpected byte size 1 of input 'A'; shape "
                                   "[2147483647,2147483647] of FP32 takes 18446744056529682436"));
  request_.mutable_inputs(0)->set_datatype("FP64");
  request_.mutable_inputs(1)->set_datatype("FP64");
  EXPECT_THAT(Refusal(Matmul(DataType::kF64)), HasSubstr("takes more than 2^64"));
  request_.mutable_inputs(0)->set_shape(0, kMost + 1);
  EXPECT_THAT(Refusal(Matmul(DataType::kF64)), HasSubstr("a dimension must be 0 to 2147483647"));
}

TEST_F(InferRequestTest, LongTextsAreNotRepeated) {
  Add("A", {1, 1}, "aaaa");
  request_.mutable_inputs(0)->set_name(std::string(100000, 'x'));
  EXPECT_LT(Refusal().size(), 1000U);
  request_.mutable_inputs(0)->set_name("A");
  request_.mutable_inputs(0)->set_datatype(std::string(100000, 'x'));
  EXPECT_LT(Refusal().size(), 1000U);
  request_.set_id(std::string(kMostIdBytes + 1, 'x'));
  EXPECT_EQ(Refusal(), "id has 1025 bytes; it may have 1024");
}

// Bytes that are close to a request, as the fuzzer makes many more of them.
TEST_F(InferRequestTest, BytesAreRefusedOrTheProductThatTheySay) {
  request_.set_model_name("matmul_fp32");
  Add("A", {2, 3}, std::string(24, 'a'));
  Add("B", {3, 2}, std::string(24, 'b'));
  Add("C", {2, 2}, std::string(16, 'c'));
  (*request_.mutable_parameters())["transpose_b"].set_bool_param(false);
  const std::string whole = request_.SerializeAsString();
  std::mt19937_64 random(20261129);
  int taken = 0;
  constexpr int kRuns = 20000;
  for (int i = 0; i < kRuns; ++i) {
    std::string bytes = whole;
    for (auto changes = random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1);
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(random()));
      }
    }
    bool is_taken = false;
    const int model = i % testing::kInferCheckModels;
    ASSERT_EQ(testing::WhatIsWrong(model, bytes, random() % bytes.size(), &is_taken), "")
        << "model " << model << ", run " << i << "\n"
        << absl::CHexEscape(bytes);
    if (is_taken) ++taken;
  }
  EXPECT_GT(taken, 500);
  EXPECT_LT(taken, kRuns / 2);
}

}  // namespace
}  // namespace gemmd
