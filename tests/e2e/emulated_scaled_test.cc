// Block-scaled products by name through the whole server, in the emulator: MXFP8 to every step of
// ladder D and to sm120/mx, mxfp4 and nvfp4 to d11's forms, on lines of whole 16 bytes, with scales
// in tiles of 128 x 4. D has every bit that the kernels' rule gives.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/kernels/mma/mx_run.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

using testing::MxCase;
using testing::MxOperand;

v1::DataType WireType(DataType type) {
  switch (type) {
    case DataType::kFp8E4M3:
      return v1::FP8_E4M3;
    case DataType::kFp8E5M2:
      return v1::FP8_E5M2;
    case DataType::kFp4E2M1:
      return v1::FP4_E2M1;
    case DataType::kE8M0:
      return v1::E8M0;
    default:
      return v1::F32;
  }
}

void Describe(DataType type, std::int64_t rows, std::int64_t columns, v1::Plane* plane) {
  plane->set_type(WireType(type));
  plane->set_rows(static_cast<std::uint64_t>(rows));
  plane->set_columns(static_cast<std::uint64_t>(columns));
  plane->set_order(v1::ROW_MAJOR);
}

void Add(v1::OperandName name, v1::PlaneName plane, const std::string& bytes,
         v1::MatmulRequest* request) {
  v1::Chunk* const chunk = request->add_payload();
  chunk->set_operand(name);
  chunk->set_plane(plane);
  chunk->set_data(bytes);
}

// Lines are as long as the operand has them.
void AddOperand(v1::OperandName name, const MxOperand& operand, v1::Operand* to,
                v1::MatmulRequest* request) {
  const MatrixLayout layout = operand.Layout();
  Describe(layout.type, layout.rows, layout.columns, to->mutable_data());
  to->mutable_data()->set_leading_dimension(static_cast<std::uint64_t>(layout.leading_dimension));
  Add(name, v1::DATA, std::string(static_cast<const char*>(operand.codes()), layout.size_bytes()),
      request);

  const Scaling& scaling = operand.scaling();
  const std::int64_t line_blocks = (operand.lines() + 127) / 128 * 128;
  const std::int64_t k_blocks = (scaling.k_blocks(operand.k()) + 3) / 4 * 4;
  Describe(scaling.type, line_blocks, k_blocks, to->mutable_scales());
  to->mutable_quantization()->set_block_k(scaling.block_k);
  to->mutable_quantization()->set_scale_layout(v1::SCALES_BLOCKED_128X4);
  Add(name, v1::SCALES,
      std::string(static_cast<const char*>(operand.scales()),
                  static_cast<std::size_t>(line_blocks * k_blocks)),
      request);
  if (operand.tensor_scale() == nullptr) return;
  Describe(DataType::kF32, 1, 1, to->mutable_tensor_scale());
  Add(name, v1::TENSOR_SCALE,
      std::string(reinterpret_cast<const char*>(operand.tensor_scale()), sizeof(float)), request);
}

v1::MatmulRequest MakeRequest(const testing::MxOperands& operands) {
  v1::MatmulRequest request;
  v1::MatmulHeader* const header = request.mutable_header();
  AddOperand(v1::A, operands.a, header->mutable_a(), &request);
  AddOperand(v1::B, operands.b, header->mutable_b(), &request);
  header->set_transpose_b(true);  // it is sent as N x K
  header->set_output_type(v1::F32);
  return request;
}

class EmulatedScaledTest : public ::testing::Test {
 protected:
  void ExpectRightBits(const MxCase& each, const std::vector<std::string>& kernels) {
    const testing::MxOperands operands(each);
    const std::vector<float> right = testing::MxProduct(operands.a, operands.b);
    const std::string expected(reinterpret_cast<const char*>(right.data()),
                               right.size() * sizeof(float));
    v1::MatmulRequest request = MakeRequest(operands);
    for (const std::string& kernel : kernels) {
      request.mutable_header()->set_kernel(kernel);
      v1::MatmulResponse response;
      const grpc::Status status = Call(request, &response);
      ASSERT_TRUE(status.ok()) << kernel << ": " << status.error_message();
      EXPECT_EQ(response.receipt().kernel(), kernel);
      EXPECT_EQ(response.receipt().device(), "emulated");
      EXPECT_NE(response.receipt().plan().find("; emulated, compiled, not run: "),
                std::string::npos)
          << response.receipt().plan();
      EXPECT_EQ(Estimate(request.header()).plan(), response.receipt().plan());
      ASSERT_EQ(response.payload_size(), 1);
      EXPECT_TRUE(response.payload(0).data() == expected) << kernel << " of " << each;
    }
  }

  grpc::Status Call(const v1::MatmulRequest& request, v1::MatmulResponse* response) {
    grpc::ClientContext context;
    return stub_->Matmul(&context, request, response);
  }

  v1::EstimateResponse Estimate(const v1::MatmulHeader& header) {
    grpc::ClientContext context;
    v1::EstimateRequest request;
    *request.mutable_header() = header;
    v1::EstimateResponse response;
    const grpc::Status status = stub_->Estimate(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  const testing::ServerProcess server_{{"--device=emulated"}};
  const std::unique_ptr<v1::Gemm::Stub> stub_ = v1::Gemm::NewStub(server_.NewChannel());
};

TEST_F(EmulatedScaledTest, Mxfp8IsServedByEachStepOfLadderDAndOnSm120) {
  std::vector<std::string> kernels = {"sm120/mx"};
  for (int step = 0; step <= 15; ++step) kernels.push_back("sm100/d" + std::to_string(step));
  ExpectRightBits({{77, 131, 91}, DataType::kFp8E4M3, DataType::kFp8E5M2}, kernels);
  ExpectRightBits({{77, 131, 96}, DataType::kFp8E5M2, DataType::kFp8E5M2}, kernels);  // tight
}

TEST_F(EmulatedScaledTest, Mxfp4AndNvfp4AreServedByFormsOfD11) {
  for (const std::int64_t k : {90, 96}) {
    ExpectRightBits(testing::Mxfp4Case({77, 131, k}), {"sm100/d11_mxfp4"});
    ExpectRightBits(testing::Nvfp4Case({77, 131, k}), {"sm100/d11_nvfp4"});
  }
}

TEST_F(EmulatedScaledTest, AKernelByNameSaysWhatItDoesNotTake) {
  const auto message = [this](const MxCase& each, const char* kernel, bool is_tiled) {
    v1::MatmulRequest request = MakeRequest(testing::MxOperands(each));
    request.mutable_header()->set_kernel(kernel);
    if (!is_tiled) {
      v1::Operand* const a = request.mutable_header()->mutable_a();
      a->mutable_quantization()->set_scale_layout(v1::SCALES_PLAIN);
      const std::int64_t k_blocks = (each.shape.k + 31) / 32;
      Describe(DataType::kE8M0, each.shape.m, k_blocks, a->mutable_scales());
      request.mutable_payload(1)->set_data(
          std::string(static_cast<std::size_t>(each.shape.m * k_blocks), '\x7f'));
    }
    v1::MatmulResponse response;
    const grpc::Status status = Call(request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << kernel;
    return status.error_message();
  };
  EXPECT_NE(message({{5, 6, 64}}, "sm100/d11", false)
                .find("takes scales of A as e8m0/1x32@tiles, not e8m0/1x32"),
            std::string::npos)
      << message({{5, 6, 64}}, "sm100/d11", false);
  EXPECT_NE(message(testing::Mxfp4Case({5, 6, 64}), "sm120/mx", true)
                .find("takes fp8_e4m3 or fp8_e5m2 as A, not fp4_e2m1"),
            std::string::npos);
  EXPECT_NE(message(testing::Nvfp4Case({5, 6, 63}), "sm100/d11_nvfp4", true)
                .find("takes an even K, not 63"),
            std::string::npos);
}

// Kernels that no card has run, and no others, say so in the listing; a server that has no place
// for them says so where it refuses one by name.
TEST_F(EmulatedScaledTest, WhatNoCardHasRunSaysSo) {
  const auto stub = v1::Admin::NewStub(server_.NewChannel());
  grpc::ClientContext context;
  v1::ListKernelsResponse listed;
  ASSERT_TRUE(stub->ListKernels(&context, {}, &listed).ok());
  int not_run = 0;
  for (const v1::Kernel& kernel : listed.kernels()) {
    const bool says_so = absl::StartsWith(kernel.description(), "emulated, compiled, not run: ");
    EXPECT_EQ(says_so, absl::StartsWith(kernel.name(), "sm100/") || kernel.name() == "sm120/mx")
        << kernel.name() << ": " << kernel.description();
    not_run += says_so;
  }
  EXPECT_EQ(not_run, 8 + 21 + 1);  // ladder C, ladder D, sm120/mx

  const testing::ServerProcess cpu({"--device=cpu"});
  v1::MatmulRequest request = MakeRequest(testing::MxOperands(MxCase{{5, 6, 64}}));
  request.mutable_header()->set_kernel("sm100/d10");
  grpc::ClientContext refused;
  v1::MatmulResponse response;
  const grpc::Status status =
      v1::Gemm::NewStub(cpu.NewChannel())->Matmul(&refused, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(status.error_message().find(
                "sm100/d10: runs on a CUDA or an emulated device; emulated, compiled, not run"),
            std::string::npos)
      << status.error_message();
}

}  // namespace
}  // namespace gemmd
