// Products over a real socket from a real server process agree with the reference.
#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "kernels/gemm.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using testing::Operands;

testing::ServerProcess* server;
std::unique_ptr<v1::Gemm::Stub> stub;

class Environment final : public ::testing::Environment {
 public:
  void SetUp() override {
    server = new testing::ServerProcess({"--cpu.threads=2"});
    stub = v1::Gemm::NewStub(server->NewChannel());
  }
  void TearDown() override {
    stub.reset();
    delete server;
  }
};
const auto* const environment = ::testing::AddGlobalTestEnvironment(new Environment);

v1::MatmulResponse Call(const v1::MatmulRequest& request) {
  grpc::ClientContext context;
  v1::MatmulResponse response;
  const grpc::Status status = stub->Matmul(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

struct Types {
  DataType a;
  DataType b;
  DataType output;
};

class Products : public ::testing::TestWithParam<Types> {};

TEST_P(Products, AgreeWithTheReferenceOverTheWire) {
  const std::vector<Problem> problems =
      testing::SmallProblems(GetParam().a, GetParam().b, GetParam().output);
  // Every variant is tested without a socket; over it, every third.
  for (std::size_t i = 0; i < problems.size(); i += 3) {
    const Problem& problem = problems[i];
    Operands operands(problem, testing::Distribution::kNormal, static_cast<std::uint32_t>(i));
    const v1::MatmulResponse response = Call(testing::MakeRequest(problem, operands));
    ASSERT_EQ(response.payload_size(), 1);
    const std::string& d = response.payload(0).data();
    ASSERT_EQ(d.size(), problem.d.size_bytes());
    operands.d.assign(d.begin(), d.end());
    ASSERT_EQ(testing::CompareWithReference(problem, operands), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, Products,
    ::testing::Values(Types{DataType::kF64, DataType::kF64, DataType::kF64},
                      Types{DataType::kF32, DataType::kF32, DataType::kF32},
                      Types{DataType::kF16, DataType::kF16, DataType::kF16},
                      Types{DataType::kBf16, DataType::kBf16, DataType::kF32},
                      Types{DataType::kInt8, DataType::kInt8, DataType::kInt32},
                      Types{DataType::kInt8, DataType::kInt8, DataType::kF32},
                      Types{DataType::kFp8E4M3, DataType::kFp8E4M3, DataType::kBf16},
                      Types{DataType::kFp8E5M2, DataType::kFp8E4M3, DataType::kF32}),
    [](const auto& info) {
      return absl::StrCat(Name(info.param.a), "_", Name(info.param.b), "_to_",
                          Name(info.param.output));
    });

TEST(Receipt, StatesWhatRoundingMayHaveCost) {
  Problem problem = MakeProblem(30, 20, 100, DataType::kBf16, DataType::kBf16);
  const Operands operands(problem, testing::Distribution::kNormal, 1);
  const v1::Receipt receipt = Call(testing::MakeRequest(problem, operands)).receipt();
  ASSERT_TRUE(receipt.has_error_bound());
  EXPECT_EQ(receipt.error_bound(), *ErrorBound(problem, {}));
  problem.epilogue.activation = Activation::kRelu;
  EXPECT_FALSE(Call(testing::MakeRequest(problem, operands)).receipt().has_error_bound());
}

TEST(Receipt, AccountsForEveryMicrosecond) {
  const Problem problem = MakeProblem(300, 200, 100, DataType::kF32, DataType::kF32);
  const Operands operands(problem, testing::Distribution::kNormal, 1);
  const v1::Receipt receipt = Call(testing::MakeRequest(problem, operands)).receipt();
  double sum = receipt.unattributed_us();
  std::vector<v1::StageName> stages;
  for (const v1::Stage& stage : receipt.stages()) {
    stages.push_back(stage.name());
    EXPECT_LE(stage.start_us(), stage.end_us());
    EXPECT_GE(stage.start_us(), 0);
    EXPECT_LE(stage.end_us(), receipt.total_us());
    sum += stage.exposed_us();
  }
  EXPECT_NEAR(sum, receipt.total_us(), 1e-6 * receipt.total_us());
  // On a machine that looks slow it goes in slices, each of which waits for its turn.
  while (stages.size() > 6 && stages[5] == v1::QUEUE && stages[6] == v1::COMPUTE) {
    stages.erase(stages.begin() + 5, stages.begin() + 7);
  }
  EXPECT_EQ(stages, (std::vector<v1::StageName>{v1::DECODE, v1::RECEIVE, v1::ADMISSION, v1::QUEUE,
                                                v1::COMPUTE, v1::ENCODE}));
  EXPECT_EQ(receipt.kernel(), "cpu/panel_f32");
  EXPECT_EQ(receipt.plan(), "tile=64x512 threads=2");
  EXPECT_EQ(receipt.numerics_id().rfind("cpu/panel_f32:k100:fma", 0), 0u);
  EXPECT_EQ(receipt.device(), "cpu");
  EXPECT_EQ(receipt.determinism(), v1::BATCH_INVARIANT);
  EXPECT_EQ(receipt.batch_requests(), 1u);
  EXPECT_EQ(receipt.batch_rows(), 300u);
  EXPECT_EQ(receipt.flops(), 2.0 * 300 * 200 * 100);
  EXPECT_GT(receipt.achieved_gflops(), 0);
  EXPECT_EQ(receipt.payload_bytes_in(), (300u * 100 + 100 * 200) * 4);
  EXPECT_EQ(receipt.payload_bytes_out(), 300u * 200 * 4);
}

TEST(Payload, ManyChunksInAnyOrderAreOneOperand) {
  const Problem problem = MakeProblem(30, 20, 10, DataType::kF32, DataType::kF32);
  Operands operands(problem, testing::Distribution::kNormal, 1);
  v1::MatmulRequest request = testing::MakeRequest(problem, operands);
  const std::string a = request.payload(0).data();
  request.mutable_payload(0)->set_data(a.substr(101));
  request.mutable_payload(0)->set_offset_bytes(101);
  v1::Chunk* front = request.add_payload();
  front->set_operand(v1::A);
  front->set_data(a.substr(0, 101));
  const v1::MatmulResponse response = Call(request);
  const std::string& d = response.payload(0).data();
  operands.d.assign(d.begin(), d.end());
  EXPECT_EQ(testing::CompareWithReference(problem, operands), "");
}

}  // namespace
}  // namespace gemmd
