// Clients of the Open Inference Protocol that do not read, and messages that are small on the wire
// and large in memory.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;

constexpr const char* kInfer = "/inference.GRPCInferenceService/ModelInfer";
constexpr const char* kStreamInfer = "/inference.GRPCInferenceService/ModelStreamInfer";

// A column by a row: n * n results of 2 * n elements.
inference::ModelInferRequest OuterProduct(std::int64_t n) {
  inference::ModelInferRequest request;
  request.set_model_name("matmul_fp32");
  for (const char* name : {"A", "B"}) {
    auto* const input = request.add_inputs();
    input->set_name(name);
    input->set_datatype("FP32");
    input->add_shape(name[0] == 'A' ? n : 1);
    input->add_shape(name[0] == 'A' ? 1 : n);
    request.add_raw_input_contents(std::string(static_cast<std::size_t>(n) * 4, '\0'));
  }
  return request;
}

std::string Message(const inference::ModelInferRequest& request) {
  return testing::RawMessage(false, request.SerializeAsString());
}

class InferenceTest : public testing::AbuseFixture {
 protected:
  InferenceTest()
      : AbuseFixture(
            {"--limits.stall-timeout-ms=1000", "--limits.min-bytes-per-second=100000000"}) {}

  // Returns once no request holds memory; the polite client's come and go.
  void AwaitFreeMemory() {
    const auto admin = v1::Admin::NewStub(channel_);
    v1::StatisticsResponse statistics;
    do {
      grpc::ClientContext context;
      ASSERT_TRUE(admin->Statistics(&context, {}, &statistics).ok());
    } while (statistics.reserved_bytes() != 0);
  }
  grpc::Status Infer(const inference::ModelInferRequest& request) {
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    return inference::GRPCInferenceService::NewStub(channel_)->ModelInfer(&context, request,
                                                                          &response);
  }
};

TEST_F(InferenceTest, AnUnreadAnswerEndsItsCall) {
  testing::RawConnection::Options options;
  options.stream_window = 0;
  testing::RawConnection connection(server_.address(), options);
  const std::uint32_t call = connection.Begin(kInfer);
  connection.Send(call, Message(OuterProduct(512)), true);
  EXPECT_TRUE(testing::IsReset(connection.ReceiveEnd(call), call));
  AwaitFreeMemory();
}

TEST_F(InferenceTest, UnreadAnswersEndTheirStream) {
  testing::RawConnection::Options options;
  options.stream_window = 0;
  testing::RawConnection connection(server_.address(), options);
  const std::uint32_t call = connection.Begin(kStreamInfer);
  for (int i = 0; i < 4; ++i) connection.Send(call, Message(OuterProduct(512)), false);
  EXPECT_TRUE(testing::IsReset(connection.ReceiveEnd(call), call));
  AwaitFreeMemory();
}

// Each is answered, and its answer waits; the server reads no more of them than it has room for.
TEST_F(InferenceTest, WrongRequestsFillNoMemory) {
  testing::RawConnection::Options options;
  options.stream_window = 0;
  testing::RawConnection connection(server_.address(), options);
  const std::uint32_t call = connection.Begin(kStreamInfer);
  inference::ModelInferRequest wrong;
  wrong.set_id(std::string(1000, 'x'));
  std::string many;
  for (int i = 0; i < 20000; ++i) many += Message(wrong);
  connection.SendAsAllowed(call, many, many.size());
  EXPECT_TRUE(testing::IsReset(connection.ReceiveEnd(call), call));
  AwaitFreeMemory();
}

TEST_F(InferenceTest, InputsWithoutAnythingAreFew) {
  inference::ModelInferRequest request = OuterProduct(512);
  for (int i = 0; i < 600000; ++i) request.add_inputs();  // 2 bytes each
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("it may have 1048576"));
}

TEST_F(InferenceTest, ParametersWithoutNamesAreRefused) {
  inference::ModelInferRequest request = OuterProduct(512);
  for (int i = 0; i < 10000; ++i) (*request.mutable_parameters())[std::to_string(i)];
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("unexpected parameter"));
}

// A client may ask for as many models as it likes; those that are not there leave nothing.
TEST_F(InferenceTest, NamesOfModelsLeaveNothing) {
  inference::ModelInferRequest request = OuterProduct(4);
  for (int i = 0; i < 3000; ++i) {
    request.set_model_name("linear/" + std::to_string(i) + std::string(200, 'x'));
    EXPECT_EQ(Infer(request).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  grpc::ClientContext context;
  inference::ModelStatisticsResponse rows;
  ASSERT_TRUE(inference::GRPCInferenceService::NewStub(channel_)
                  ->ModelStatistics(&context, {}, &rows)
                  .ok());
  EXPECT_EQ(rows.model_stats_size(), 5);
}

}  // namespace
}  // namespace gemmd
