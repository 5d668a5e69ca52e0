// GPU kernels through the whole server, by name, in the emulator: tight operands of any
// shape come in, lines are padded on landing, and every step of a ladder gives the same bits.
#include <string>
#include <vector>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

class EmulatedTest : public ::testing::Test {
 protected:
  // Each kernel computes the same product, which is compared with the reference and with the
  // others.
  void ExpectEqualBits(const std::vector<const char*>& kernels) {
    for (const DataType type : {DataType::kF16, DataType::kBf16}) {
      const Problem problem = MakeProblem(77, 131, 45, type, type);
      testing::Operands operands(problem, testing::Distribution::kNormal, 1);
      v1::MatmulRequest request = testing::MakeRequest(problem, operands);
      std::string first;
      for (const char* kernel : kernels) {
        request.mutable_header()->set_kernel(kernel);
        v1::MatmulResponse response;
        const grpc::Status status = Call(request, &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(response.receipt().kernel(), kernel);
        EXPECT_EQ(response.receipt().device(), "emulated");
        EXPECT_EQ(response.d().leading_dimension(), 131u);
        const std::string& d = response.payload(0).data();
        if (first.empty()) first = d;
        EXPECT_EQ(d, first) << kernel;
        operands.d.assign(d.begin(), d.end());
        EXPECT_EQ(testing::CompareWithReference(problem, operands), "") << kernel;
      }
    }
  }

  grpc::Status Call(const v1::MatmulRequest& request, v1::MatmulResponse* response) {
    grpc::ClientContext context;
    return stub_->Matmul(&context, request, response);
  }

  const testing::ServerProcess server_{{"--device=emulated"}};
  const std::unique_ptr<v1::Gemm::Stub> stub_ = v1::Gemm::NewStub(server_.NewChannel());
};

TEST_F(EmulatedTest, EveryStepOfLaddersAAndBServesRaggedOperandsWithEqualBits) {
  ExpectEqualBits({"sm80/a01a", "sm80/a01b", "sm80/a02", "sm80/a03a", "sm80/a03b", "sm80/a04",
                   "sm80/a05", "sm80/a06", "sm120/bcf_dbf_rw", "sm120/k_stages", "sm120/tma_loads",
                   "sm120/tma_r_64", "sm120/tma_r_32", "sm120/tma_rw", "sm120/pair_boxes",
                   "sm120/warp_release", "sm120/warps_64x64", "sm120/warps_64x64_k64",
                   "sm120/tma_rw_64x64"});
}

TEST_F(EmulatedTest, LadderCServesThemWithBitsOfItsOwn) {
  ExpectEqualBits({"sm100/c2", "sm100/c3", "sm100/c4"});
  ExpectEqualBits({"sm100/c1"});  // sums in another order
}

TEST_F(EmulatedTest, WithoutASumThereIsTheBias) {
  Problem problem = MakeProblem(5, 7, 1, DataType::kF16, DataType::kF16);
  problem.epilogue.has_bias = true;
  testing::Operands operands(problem, testing::Distribution::kNormal, 1);
  for (testing::PlaneBytes* zeros : {&operands.a, &operands.b}) zeros->assign(zeros->size(), 0);
  v1::MatmulRequest request = testing::MakeRequest(problem, operands);
  v1::MatmulResponse expected;
  ASSERT_TRUE(Call(request, &expected).ok());
  request.mutable_payload()->DeleteSubrange(0, 2);
  request.mutable_header()->mutable_a()->mutable_data()->set_columns(0);
  request.mutable_header()->mutable_b()->mutable_data()->set_rows(0);
  v1::MatmulResponse response;
  const grpc::Status status = Call(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.payload(0).data(), expected.payload(0).data());
}

TEST_F(EmulatedTest, ACpuKernelSaysWhereItRuns) {
  v1::MatmulRequest request = testing::ZeroRequest(4);
  request.mutable_header()->set_kernel("cpu/panel_f32");
  v1::MatmulResponse response;
  const grpc::Status status = Call(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(status.error_message().find("runs on a CPU device"), std::string::npos)
      << status.error_message();
}

}  // namespace
}  // namespace gemmd
