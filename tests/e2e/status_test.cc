// Every cause of refusal, sent to a real server: code, message, and nothing left behind.
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/raw_call.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using testing::ZeroRequest;

class StatusTest : public ::testing::Test {
 protected:
  explicit StatusTest(std::vector<std::string> flags = {"--cpu.threads=1"})
      : server_(std::move(flags)),
        channel_(server_.NewChannel()),
        gemm_(v1::Gemm::NewStub(channel_)),
        admin_(v1::Admin::NewStub(channel_)) {}

  grpc::Status Call(const v1::MatmulRequest& request, std::int64_t timeout_ms = 60000) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
    v1::MatmulResponse response;
    return gemm_->Matmul(&context, request, &response);
  }

  v1::StatisticsResponse Statistics() const {
    grpc::ClientContext context;
    v1::StatisticsResponse response;
    EXPECT_TRUE(admin_->Statistics(&context, {}, &response).ok());
    return response;
  }

  // The memory of an answer is in use until gRPC has sent it.
  void AwaitFreeMemory() const {
    while (Statistics().reserved_bytes() != 0) {
    }
  }

  testing::ServerProcess server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Gemm::Stub> gemm_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

TEST_F(StatusTest, BadRequestsAreRefusedByFieldAndTheServerServesOn) {
  struct Row {
    std::function<void(v1::MatmulHeader* header, v1::MatmulRequest* request)> spoil;
    StatusCode code;
    const char* part_of_message;
  };
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  const std::vector<Row> rows = {
      {[](auto* h, auto*) { h->clear_a(); }, StatusCode::INVALID_ARGUMENT, "a is missing"},
      {[](auto* h, auto*) { h->mutable_a()->mutable_data()->set_rows(0); },
       StatusCode::INVALID_ARGUMENT, "a.data.rows is 0; it must be 1 to 2147483647"},
      {[](auto* h, auto*) { h->mutable_b()->mutable_data()->set_columns(kHuge); },
       StatusCode::INVALID_ARGUMENT, "b.data.columns is 18446744073709551615"},
      {[](auto* h, auto*) {
         for (auto* o : {h->mutable_a(), h->mutable_b()}) {
           o->mutable_data()->set_rows(2147483647);
           o->mutable_data()->set_columns(2147483647);
           o->mutable_data()->set_leading_dimension(0);
         }
       },
       StatusCode::INVALID_ARGUMENT,
       "d is 2147483647 x 2147483647 f32, 18446744056529682436 bytes"},
      {[](auto* h, auto*) { h->mutable_a()->mutable_data()->set_leading_dimension(3); },
       StatusCode::INVALID_ARGUMENT, "a.data.leading_dimension is 3; it must be 8"},
      {[](auto* h, auto*) { h->mutable_a()->mutable_data()->set_type(v1::DataType(77)); },
       StatusCode::INVALID_ARGUMENT, "a.data.type is 77"},
      {[](auto* h, auto*) { h->mutable_b()->mutable_data()->set_rows(9); },
       StatusCode::INVALID_ARGUMENT, "inner dimensions 8 and 9"},
      {[](auto*, auto* r) { r->mutable_payload(0)->mutable_data()->pop_back(); },
       StatusCode::INVALID_ARGUMENT,
       "payload of a has 255 bytes, and the next byte is 255; its plane has 256"},
      {[](auto*, auto* r) { r->mutable_payload()->RemoveLast(); }, StatusCode::INVALID_ARGUMENT,
       "payload of b has 0 bytes"},
      {[](auto*, auto* r) { r->mutable_payload(1)->set_offset_bytes(kHuge); },
       StatusCode::INVALID_ARGUMENT, "at offset 18446744073709551615"},
      {[](auto*, auto* r) { r->mutable_payload(1)->set_request_id(3); },
       StatusCode::INVALID_ARGUMENT, "payload[1].request_id is 3; in Matmul it must be 0"},
      {[](auto*, auto* r) { r->mutable_payload(1)->set_operand(v1::BIAS); },
       StatusCode::INVALID_ARGUMENT, "a plane of bias that the header does not have"},
      {[](auto* h, auto*) { h->set_alpha(std::numeric_limits<double>::quiet_NaN()); },
       StatusCode::INVALID_ARGUMENT, "alpha is nan"},
      {[](auto* h, auto*) { h->set_beta(1); }, StatusCode::INVALID_ARGUMENT, "c is missing"},
      {[](auto* h, auto*) { h->set_activation(v1::Activation(9)); }, StatusCode::INVALID_ARGUMENT,
       "activation is 9"},
      {[](auto* h, auto*) { h->set_kernel("sm90/imagined"); }, StatusCode::FAILED_PRECONDITION,
       "kernel is \"sm90/imagined\""},
      {[](auto* h, auto*) { h->set_output_type(v1::F16); }, StatusCode::FAILED_PRECONDITION,
       "cpu/panel_f32: does not write f16"},
      {[](auto* h, auto*) { h->set_accumulate_type(v1::F16); }, StatusCode::FAILED_PRECONDITION,
       "cpu/panel_f32: accumulates in f32"},
      {[](auto* h, auto*) {
         for (auto* o : {h->mutable_a(), h->mutable_b()}) o->mutable_data()->set_type(v1::TF32);
       },
       StatusCode::FAILED_PRECONDITION, "(none there multiplies tf32; "},
      {[](auto* h, auto*) { h->mutable_b()->set_handle("weights"); }, StatusCode::NOT_FOUND,
       "b.handle is \"weights\": the server has no such operand"},
      {[](auto* h, auto*) { h->mutable_verification()->set_vectors(65); },
       StatusCode::INVALID_ARGUMENT, "verification.vectors is 65"},
  };
  for (const Row& row : rows) {
    v1::MatmulRequest request = ZeroRequest(8);
    row.spoil(request.mutable_header(), &request);
    const grpc::Status status = Call(request);
    EXPECT_EQ(status.error_code(), row.code) << row.part_of_message;
    EXPECT_NE(status.error_message().find(row.part_of_message), std::string::npos)
        << status.error_message();
  }
  EXPECT_TRUE(Call(ZeroRequest(8)).ok());
  const v1::StatisticsResponse statistics = Statistics();
  EXPECT_EQ(statistics.received_requests(), rows.size() + 1);
  EXPECT_EQ(statistics.in_flight_requests(), 0u);
  AwaitFreeMemory();
  EXPECT_EQ(statistics.finished_requests().at("OK"), 1u);
}

// The answers to scales are as particular as those to data.
TEST_F(StatusTest, BadScalesAreRefusedByNameAndTheServerServesOn) {
  Problem problem = MakeProblem(4, 5, 6, DataType::kFp8E4M3, DataType::kBf16);
  problem.a_scaling = Scaling::kVector;
  problem.b_scaling = Scaling::kVector;
  const testing::Operands operands(problem, testing::Distribution::kNormal, 1);
  const v1::MatmulRequest good = testing::MakeRequest(problem, operands);
  constexpr int kScalesOfA = 2;  // the chunk
  const auto set_scale = [](v1::MatmulRequest* request, std::size_t index, float value) {
    std::memcpy(&(*request->mutable_payload(kScalesOfA)->mutable_data())[index * sizeof value],
                &value, sizeof value);
  };
  struct Row {
    std::function<void(v1::MatmulHeader* header, v1::MatmulRequest* request)> spoil;
    StatusCode code;
    const char* part_of_message;
  };
  const std::vector<Row> rows = {
      {[](auto* h, auto*) {
         for (auto* o : {h->mutable_a(), h->mutable_b()}) o->mutable_data()->set_type(v1::F32);
       },
       StatusCode::INVALID_ARGUMENT, "a.scales is set, and a.data.type is f32"},
      {[](auto* h, auto*) { h->mutable_a()->mutable_scales()->set_type(v1::F16); },
       StatusCode::INVALID_ARGUMENT, "a.scales.type is f16; it must be f32"},
      {[](auto* h, auto*) { h->mutable_a()->mutable_scales()->set_type(v1::DataType(50)); },
       StatusCode::INVALID_ARGUMENT, "a.scales.type is 50"},
      {[](auto* h, auto*) { h->mutable_a()->mutable_scales()->set_rows(5); },
       StatusCode::INVALID_ARGUMENT, "a.scales is 5 x 1; it must be 1 x 1, or 4 x 1"},
      {[](auto* h, auto*) { h->mutable_b()->mutable_scales()->set_columns(4); },
       StatusCode::INVALID_ARGUMENT, "b.scales is 1 x 4; it must be 1 x 1, or 1 x 5"},
      {[](auto* h, auto*) { h->mutable_b()->mutable_scales()->set_leading_dimension(8); },
       StatusCode::INVALID_ARGUMENT, "b.scales.leading_dimension is 8; it must be 5 or 0"},
      {[](auto* h, auto*) { h->mutable_a()->mutable_zero_points()->set_type(v1::UINT8); },
       StatusCode::INVALID_ARGUMENT, "a.zero_points is set, and a.data.type is fp8_e4m3"},
      {[](auto* h, auto*) { h->mutable_a()->clear_scales(); }, StatusCode::INVALID_ARGUMENT,
       "a plane of a that the header does not have"},
      {[](auto*, auto* r) { r->mutable_payload()->DeleteSubrange(kScalesOfA, 1); },
       StatusCode::INVALID_ARGUMENT,
       "payload of a.scales has 0 bytes, and the next byte is 0; its plane has 16"},
      {[&](auto*, auto* r) { set_scale(r, 1, NAN); }, StatusCode::INVALID_ARGUMENT,
       "a.scales[1] is nan; it must be finite"},
      {[&](auto*, auto* r) { set_scale(r, 3, INFINITY); }, StatusCode::INVALID_ARGUMENT,
       "a.scales[3] is inf"},
      {[](auto* h, auto*) { *h->mutable_a()->mutable_offsets() = h->a().scales(); },
       StatusCode::INVALID_ARGUMENT,
       "a.offsets is set, and a.data.type is fp8_e4m3; only integers have offsets"},
      {[](auto* h, auto*) { h->set_output_type(v1::INT32); }, StatusCode::INVALID_ARGUMENT,
       "output_type is int32, and a.scales is set"},
      {[](auto* h, auto*) { h->set_output_type(v1::F64); }, StatusCode::FAILED_PRECONDITION,
       "cpu/panel_fp8_e4m3: does not write f64"},
  };
  for (const Row& row : rows) {
    v1::MatmulRequest request = good;
    row.spoil(request.mutable_header(), &request);
    const grpc::Status status = Call(request);
    EXPECT_EQ(status.error_code(), row.code) << row.part_of_message;
    EXPECT_NE(status.error_message().find(row.part_of_message), std::string::npos)
        << status.error_message();
  }
  v1::MatmulRequest zero = good;
  set_scale(&zero, 0, 0);
  EXPECT_TRUE(Call(zero).ok());
  AwaitFreeMemory();
}

TEST_F(StatusTest, MalformedProtobufIsAnInvalidArgumentForEveryUnaryMethod) {
  for (const std::string method :
       {"Gemm/Matmul", "Admin/ServerInfo", "Admin/ListKernels", "Admin/Statistics",
        "Operands/FindMissing", "Operands/Get", "Operands/List", "Operands/Release",
        "Operands/Renew", "Gemm/Estimate"}) {
    const grpc::Status status =
        testing::RawUnaryCall(channel_, "/gemmd.v1." + method, "\xff\xff\xff\xff\x07").status;
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_NE(status.error_message().find("malformed protobuf"), std::string::npos) << method;
  }
}

TEST_F(StatusTest, EstimateRefusesWhatMatmulRefuses) {
  const Problem problem = MakeProblem(4, 4, 4, DataType::kF32, DataType::kF32);
  const testing::Operands operands(problem, testing::Distribution::kNormal, 1);
  v1::EstimateRequest request;
  *request.mutable_header() = testing::MakeRequest(problem, operands).header();
  const auto estimate = [&] {
    grpc::ClientContext context;
    v1::EstimateResponse response;
    return gemm_->Estimate(&context, request, &response);
  };
  EXPECT_TRUE(estimate().ok());
  for (const double gflops : {-1.0, std::nan("")}) {
    request.set_caller_gflops(gflops);
    EXPECT_EQ(estimate().error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(estimate().error_message().find("caller_gflops is "), std::string::npos);
  }
  request.set_caller_gflops(0);
  request.mutable_header()->mutable_b()->mutable_data()->set_rows(5);
  EXPECT_EQ(estimate().error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(estimate().error_message().find("inner dimensions 4 and 5"), std::string::npos);
  request.mutable_header()->mutable_b()->mutable_data()->set_rows(4);
  request.mutable_header()->set_kernel("none");
  EXPECT_EQ(estimate().error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(StatusTest, VerificationOfAnActivationIsRefused) {
  const Problem problem = MakeProblem(4, 4, 4, DataType::kF32, DataType::kF32);
  const testing::Operands operands(problem, testing::Distribution::kNormal, 1);
  v1::MatmulRequest request = testing::MakeRequest(problem, operands);
  request.mutable_header()->set_activation(v1::RELU);
  request.mutable_header()->mutable_verification()->set_vectors(3);
  EXPECT_EQ(Call(request).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(StatusTest, ADeadlineThatCannotBeMetIsRefusedByTheServer) {
  // A rank-one product whose result alone takes longer to write than the deadline.
  const Problem problem = MakeProblem(4000, 4000, 1, DataType::kF32, DataType::kF32);
  const testing::Operands operands(problem, testing::Distribution::kNormal, 1);
  const grpc::Status status = Call(testing::MakeRequest(problem, operands), 2);
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Call(ZeroRequest(4)).ok());
}

TEST_F(StatusTest, ExplainsAndRefusesMalformedShapes) {
  grpc::ClientContext context;
  v1::ListKernelsRequest request;
  v1::ListKernelsResponse response;
  request.mutable_explain()->set_n(20);
  request.mutable_explain()->set_k(30);
  const grpc::Status bad = admin_->ListKernels(&context, request, &response);
  EXPECT_EQ(bad.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(bad.error_message(), "a.data.rows is 0; it must be 1 to 2147483647");

  request.mutable_explain()->set_m(10);
  grpc::ClientContext good_context;
  ASSERT_TRUE(admin_->ListKernels(&good_context, request, &response).ok());
  EXPECT_EQ(response.kernels_size(), response.candidates_size());
  int chosen = 0;
  for (const v1::Candidate& candidate : response.candidates()) {
    EXPECT_NE(candidate.rejection().empty(), candidate.plan().empty());
    if (candidate.chosen()) {
      ++chosen;
      EXPECT_EQ(candidate.kernel(), "cpu/panel_f32");
    }
  }
  EXPECT_EQ(chosen, 1);
}

class SmallServer : public StatusTest {
 protected:
  SmallServer()
      : StatusTest({"--cpu.threads=1", "--limits.message-bytes=100000",
                    "--scheduling.max-queued-requests=1"}) {}
};

TEST_F(SmallServer, AMessageOverTheLimitIsRefusedWithoutPushback) {
  grpc::ClientContext context;
  v1::MatmulResponse response;
  const grpc::Status status = gemm_->Matmul(&context, ZeroRequest(200), &response);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("100000"), std::string::npos) << status.error_message();
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 0u);
}

TEST_F(SmallServer, AResultOverTheLimitIsAnInvalidArgument) {
  const Problem problem = MakeProblem(200, 200, 1, DataType::kF32, DataType::kF32);
  const testing::Operands operands(problem, testing::Distribution::kNormal, 1);
  const grpc::Status status = Call(testing::MakeRequest(problem, operands));
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "d is 200 x 200 f32, 160000 bytes; a unary response carries at most 100000");
}

// One runs, one waits; sent all at once, most of the others find the queue full.
TEST_F(SmallServer, AFullQueueAnswersAtOnceWithPushback) {
  constexpr int kCalls = 200;
  struct Pending {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    grpc::Status status;
  };
  const v1::MatmulRequest request = ZeroRequest(100);
  std::vector<Pending> calls(kCalls);
  std::vector<std::unique_ptr<grpc::ClientAsyncResponseReader<v1::MatmulResponse>>> readers;
  grpc::CompletionQueue queue;
  for (Pending& call : calls) {
    readers.push_back(gemm_->AsyncMatmul(&call.context, request, &queue));
    readers.back()->Finish(&call.response, &call.status, nullptr);
  }
  void* tag;
  bool ok;
  for (int i = 0; i < kCalls; ++i) ASSERT_TRUE(queue.Next(&tag, &ok));
  std::uint64_t served = 0;
  std::uint64_t refused = 0;
  for (const Pending& call : calls) {
    if (call.status.ok()) {
      ++served;
      continue;
    }
    ++refused;
    EXPECT_EQ(call.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(call.status.error_message(), "the queue is full: 1 requests wait, and 1 may");
    EXPECT_EQ(call.context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
  }
  EXPECT_GE(served, 2u);
  AwaitFreeMemory();
  const v1::StatisticsResponse statistics = Statistics();
  EXPECT_EQ(statistics.admitted_requests(), served);
  EXPECT_EQ(statistics.queued_requests(), 0u);
  RecordProperty("refused", static_cast<int>(refused));
}

}  // namespace
}  // namespace gemmd
