// Requests of the Open Inference Protocol that nobody of good will sends: small on the wire and
// large in memory, with contents that do not fit their shapes, and with hostile names.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/attacks.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;

using testing::OuterInfer;

class InferenceTest : public testing::AbuseFixture {
 protected:
  InferenceTest()
      : AbuseFixture(
            {"--limits.stall-timeout-ms=1000", "--limits.min-bytes-per-second=100000000"}) {}

  grpc::Status Infer(const inference::ModelInferRequest& request) {
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    return inference::GRPCInferenceService::NewStub(channel_)->ModelInfer(&context, request,
                                                                          &response);
  }
};

// Each is answered, and its answer waits; the server reads no more of them than it has room for.
TEST_F(InferenceTest, WrongRequestsFillNoMemory) {
  testing::RawConnection::Options options;
  options.stream_window = 0;
  testing::RawConnection connection(server_.address(), options);
  const std::uint32_t call = connection.Begin(testing::kModelStreamInfer);
  inference::ModelInferRequest wrong;
  wrong.set_id(std::string(1000, 'x'));
  std::string many;
  const std::string one = testing::RawMessage(false, wrong.SerializeAsString());
  for (int i = 0; i < 20000; ++i) many += one;
  connection.SendAsAllowed(call, many, many.size());
  EXPECT_TRUE(testing::IsReset(connection.ReceiveEnd(call), call));
  AwaitFreeMemory();
}

TEST_F(InferenceTest, InputsWithoutAnythingAreFew) {
  inference::ModelInferRequest request = OuterInfer(512);
  for (int i = 0; i < 600000; ++i) request.add_inputs();  // 2 bytes each
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("it may have 1048576"));
}

TEST_F(InferenceTest, ParametersWithoutNamesAreRefused) {
  inference::ModelInferRequest request = OuterInfer(512);
  for (int i = 0; i < 10000; ++i) (*request.mutable_parameters())[std::to_string(i)];
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("unexpected parameter"));
}

// A client may ask for as many models as it likes; those that are not there leave nothing.
TEST_F(InferenceTest, NamesOfModelsLeaveNothing) {
  inference::ModelInferRequest request = OuterInfer(4);
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

using Request = inference::ModelInferRequest;

struct Hostile {
  const char* name;
  void (*change)(Request& request);
  grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT;
};

std::string Long() { return std::string(200000, 'x'); }

const Hostile kHostile[] = {
    {"no inputs", [](Request& r) { r.clear_inputs(); }},
    {"no shape", [](Request& r) { r.mutable_inputs(0)->clear_shape(); }},
    {"a shape of many dimensions",
     [](Request& r) {
       for (int i = 0; i < 100000; ++i) r.mutable_inputs(0)->add_shape(1);
     }},
    {"a negative dimension", [](Request& r) { r.mutable_inputs(0)->set_shape(0, -1); }},
    {"a dimension of 2^63 - 1", [](Request& r) { r.mutable_inputs(1)->set_shape(1, INT64_MAX); }},
    {"a dimension of -2^63", [](Request& r) { r.mutable_inputs(0)->set_shape(0, INT64_MIN); }},
    {"more elements than bytes", [](Request& r) { r.mutable_inputs(0)->set_shape(0, 5); }},
    {"fewer elements than bytes", [](Request& r) { r.mutable_inputs(0)->set_shape(0, 3); }},
    {"2^31 - 1 rows of four bytes",
     [](Request& r) { r.mutable_inputs(0)->set_shape(0, INT32_MAX); }},
    {"rows that wrap around",
     [](Request& r) {
       r.mutable_inputs(0)->clear_shape();
       for (int i = 0; i < 4; ++i) r.mutable_inputs(0)->add_shape(65536);
       r.mutable_inputs(0)->add_shape(1);
     }},
    {"inner dimensions that differ",
     [](Request& r) {
       r.mutable_inputs(0)->set_shape(0, 2);
       r.mutable_inputs(0)->set_shape(1, 2);
     }},
    {"contents for no input", [](Request& r) { r.add_raw_input_contents("abcd"); }},
    {"an input without contents", [](Request& r) { r.mutable_raw_input_contents()->RemoveLast(); }},
    {"both kinds of contents",
     [](Request& r) { r.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1); }},
    {"contents of another type",
     [](Request& r) {
       r.clear_raw_input_contents();
       r.mutable_inputs(0)->mutable_contents()->add_bytes_contents("abcd");
     }},
    {"an input twice", [](Request& r) { *r.add_inputs() = r.inputs(0); }},
    {"an output twice",
     [](Request& r) {
       for (int i = 0; i < 2; ++i) r.add_outputs()->set_name("D");
     }},
    {"a long id", [](Request& r) { r.set_id(Long()); }},
    {"a long datatype", [](Request& r) { r.mutable_inputs(0)->set_datatype(Long()); }},
    {"a long input", [](Request& r) { r.mutable_inputs(0)->set_name(Long()); }},
    {"an input of control characters", [](Request& r) { r.mutable_inputs(1)->set_name("A\1\r"); }},
    {"a long output", [](Request& r) { r.add_outputs()->set_name(Long()); }},
    {"a long parameter", [](Request& r) { (*r.mutable_parameters())[Long()]; }},
    {"a long value",
     [](Request& r) { (*r.mutable_parameters())["activation"].set_string_param(Long()); }},
    {"a long parameter of an input",
     [](Request& r) { (*r.mutable_inputs(0)->mutable_parameters())[Long()]; }},
    {"a long kernel",
     [](Request& r) { (*r.mutable_parameters())["kernel"].set_string_param(Long()); },
     grpc::StatusCode::FAILED_PRECONDITION},
    {"a long model", [](Request& r) { r.set_model_name(Long()); }, grpc::StatusCode::NOT_FOUND},
    {"a long operand", [](Request& r) { r.set_model_name("linear/" + Long()); }},
    {"a long version", [](Request& r) { r.set_model_version(Long()); },
     grpc::StatusCode::NOT_FOUND},
    {"a region that is not there",
     [](Request& r) {
       auto& parameters = *r.mutable_inputs(0)->mutable_parameters();
       parameters["shared_memory_region"].set_string_param(Long());
       parameters["shared_memory_byte_size"].set_int64_param(16);
       r.mutable_raw_input_contents()->RemoveLast();
     },
     grpc::StatusCode::NOT_FOUND},
};

// Errors of HTTP/2 are in a header: one that is long ends the call instead of saying why.
constexpr std::size_t kMostErrorBytes = 2000;

TEST_F(InferenceTest, HostileRequestsAreRefusedByName) {
  for (const Hostile& each : kHostile) {
    Request request = OuterInfer(4);
    each.change(request);
    const grpc::Status status = Infer(request);
    EXPECT_EQ(status.error_code(), each.code) << each.name << ": " << status.error_message();
    EXPECT_LT(status.error_message().size(), kMostErrorBytes) << each.name;
    EXPECT_FALSE(status.error_message().empty()) << each.name;
  }
  EXPECT_TRUE(Infer(OuterInfer(4)).ok());
  AwaitFreeMemory();
}

// One stream has them all, and goes on.
TEST_F(InferenceTest, HostileRequestsEndNoStream) {
  grpc::ClientContext context;
  const auto stream =
      inference::GRPCInferenceService::NewStub(channel_)->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  for (const Hostile& each : kHostile) {
    Request request = OuterInfer(4);
    each.change(request);
    ASSERT_TRUE(stream->Write(request)) << each.name;
    ASSERT_TRUE(stream->Read(&response)) << each.name;
    EXPECT_NE(response.error_message(), "") << each.name;
    EXPECT_LT(response.ByteSizeLong(), kMostErrorBytes) << each.name;
    EXPECT_EQ(response.infer_response().outputs_size(), 0) << each.name;
  }
  ASSERT_TRUE(stream->Write(OuterInfer(4)));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace gemmd
