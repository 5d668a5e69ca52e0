// Estimates and verification, asked of a real server.
#include <memory>
#include <string>

#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

class EstimateTest : public ::testing::Test {
 protected:
  EstimateTest()
      : server_({"--cpu.threads=1", "--verification.sampled-per-million=1000000"}),
        gemm_(v1::Gemm::NewStub(server_.NewChannel())),
        admin_(v1::Admin::NewStub(server_.NewChannel())) {}

  v1::EstimateResponse Estimate(const v1::MatmulHeader& header, double caller_gflops) {
    grpc::ClientContext context;
    v1::EstimateRequest request;
    *request.mutable_header() = header;
    request.set_caller_gflops(caller_gflops);
    v1::EstimateResponse response;
    const grpc::Status status = gemm_->Estimate(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  v1::MatmulResponse Matmul(const v1::MatmulRequest& request) {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    const grpc::Status status = gemm_->Matmul(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  v1::StatisticsResponse Statistics() {
    grpc::ClientContext context;
    v1::StatisticsResponse response;
    EXPECT_TRUE(admin_->Statistics(&context, {}, &response).ok());
    return response;
  }

  testing::ServerProcess server_;
  const std::unique_ptr<v1::Gemm::Stub> gemm_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
  const Problem problem_ = MakeProblem(96, 80, 64, DataType::kF32, DataType::kF32);
  const v1::MatmulRequest request_ = testing::MakeRequest(
      problem_, testing::Operands(problem_, testing::Distribution::kNormal, 1));
};

TEST_F(EstimateTest, HasThePlanAndTheTimesOfTheProduct) {
  v1::Receipt receipt;
  for (int i = 0; i < 5; ++i) receipt = Matmul(request_).receipt();
  EXPECT_GT(receipt.predicted().compute_us(), 0);
  EXPECT_EQ(receipt.predicted().device_us(), receipt.predicted().compute_us());

  const v1::EstimateResponse estimate = Estimate(request_.header(), 1e-9);
  EXPECT_EQ(estimate.kernel(), receipt.kernel());
  EXPECT_EQ(estimate.plan(), receipt.plan());
  EXPECT_EQ(estimate.device(), receipt.device());
  EXPECT_EQ(estimate.numerics_id(), receipt.numerics_id());
  EXPECT_EQ(estimate.flops(), receipt.flops());
  EXPECT_EQ(estimate.receive_bytes(), receipt.payload_bytes_in());
  EXPECT_EQ(estimate.send_bytes(), receipt.payload_bytes_out());
  EXPECT_GT(estimate.compute_us(), 0);
  EXPECT_EQ(estimate.copy_us(), 0);  // host memory is the device's
  EXPECT_EQ(estimate.queue_us(), 0);
  EXPECT_TRUE(estimate.offload_is_faster());
  EXPECT_FALSE(Estimate(request_.header(), 1e9).offload_is_faster());
  EXPECT_FALSE(Estimate(request_.header(), 0).offload_is_faster());

  const v1::StatisticsResponse statistics = Statistics();
  ASSERT_EQ(statistics.costs_size(), 1);
  EXPECT_EQ(statistics.costs(0).device(), "cpu");
  EXPECT_EQ(statistics.costs(0).device_time().count(), 5U);
  EXPECT_GT(statistics.costs(0).device_time().predicted_us(), 0);
  EXPECT_GT(statistics.costs(0).device_time().measured_us(), 0);
  ASSERT_EQ(statistics.queues_size(), 1);
  const v1::QueueStatistics& queue = statistics.queues(0);
  EXPECT_EQ(queue.device(), "cpu");
  EXPECT_EQ(queue.alone().requests() + queue.rows().requests() + queue.group().requests(), 5U);
  EXPECT_GT(queue.limit_us(), 0);
  EXPECT_EQ(queue.late_in_queue() + queue.late_on_device(), 0U);
}

TEST_F(EstimateTest, AVerifiedProductHasItsResidual) {
  v1::MatmulRequest verified = request_;
  verified.mutable_header()->mutable_verification()->set_vectors(3);
  const v1::Receipt receipt = Matmul(verified).receipt();
  ASSERT_TRUE(receipt.has_verification_residual());
  EXPECT_GT(receipt.verification_residual(), 0);
  EXPECT_LE(receipt.verification_residual(), 1);
  bool has_stage = false;
  for (const v1::Stage& stage : receipt.stages()) has_stage |= stage.name() == v1::VERIFY;
  EXPECT_TRUE(has_stage);
  EXPECT_FALSE(Matmul(request_).receipt().has_verification_residual());
  // The second product is of the sample, and is checked after it was sent.
  while (Statistics().verification().checked() < 2) {
  }
  EXPECT_EQ(Statistics().verification().failed(), 0U);
  EXPECT_GE(Statistics().verification().worst_residual(), receipt.verification_residual());
}

}  // namespace
}  // namespace gemmd
