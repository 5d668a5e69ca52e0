// The registry entries over a library that computes bare products, epilogues in the
// emulator: what they ask for, where it goes, and what panels of a plan get.
#include "kernels/cublaslt/cublaslt_registry.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/emulator/session.h"
#include "kernels/gemm.h"
#include "tests/kernels/cublaslt/fake_engine.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/quantized_product.h"

namespace gemmd::testing {
namespace {

using cublaslt::FakeEngine;

Registry MakeRegistry(const FakeEngine& engine) {
  std::vector<std::unique_ptr<const Kernel>> kernels;
  AppendCublasLt(&engine, &kernels);
  return Registry(std::move(kernels));
}

DeviceTraits Gpu() {
  DeviceTraits device;
  device.kind = DeviceKind::kCuda;
  device.name = "cuda:0";
  device.compute_capability = 90;
  device.f32_gflops = 50e3;
  device.half_gflops = 750e3;
  device.byte_gflops = 1500e3;
  device.memory_gbps = 4500;
  return device;
}

void PadLines(Problem* problem) {
  for (MatrixLayout* layout : {&problem->a, &problem->b, &problem->c, &problem->d}) {
    const std::int64_t unit = 128 / SizeBits(layout->type);
    layout->leading_dimension = (layout->inner() + unit - 1) / unit * unit;
  }
}

absl::Status Launch(const Plan& plan, const Problem& problem, Operands* operands) {
  const Workspace workspace(plan.workspace_bytes);
  Arguments arguments = operands->arguments();
  arguments.workspace = workspace.data();
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  return plan.kernel->Launch(problem, plan.config, arguments, target);
}

class Products : public ::testing::TestWithParam<DataType> {};

TEST_P(Products, AreRightThroughAnEpilogueOfOurs) {
  const DataType type = GetParam();
  FakeEngine engine;
  engine.workspaces = {512};
  const Registry registry = MakeRegistry(engine);
  int number = 0;
  for (Problem problem : SmallProblems(type, type)) {
    if (++number % 5 != 0) continue;
    PadLines(&problem);
    const absl::StatusOr<Plan> plan = Select(registry, problem, Gpu());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_GT(plan->workspace_bytes, 512u);
    Operands operands(problem, Distribution::kNormal, 3);
    const absl::Status status = Launch(*plan, problem, &operands);
    ASSERT_TRUE(status.ok()) << ToString(problem) << ": " << status;
    EXPECT_EQ(CompareWithReference(problem, operands), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Products,
                         ::testing::Values(DataType::kF64, DataType::kF32, DataType::kBf16,
                                           DataType::kF16),
                         [](const auto& info) { return std::string(Name(info.param)); });

Problem Bf16(std::int64_t m = 64) {
  Problem problem = MakeProblem(m, 64, 64, DataType::kBf16, DataType::kBf16);
  problem.determinism = Determinism::kFast;
  return problem;
}

TEST(CublasLt, NeedsNoWorkspaceOfItsOwnWhereTheLibraryFuses) {
  FakeEngine engine;
  engine.fuses_alpha = true;
  engine.workspaces = {1000, 0};
  const Registry registry = MakeRegistry(engine);
  const Kernel* kernel = registry.Find("cublaslt/bf16");
  const std::vector<Config> configs = kernel->Alternatives(Bf16(), Gpu());
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_EQ(configs[0].algorithm, 1);
  EXPECT_EQ(kernel->WorkspaceBytes(Bf16(), configs[0]), 1024u);  // whole units of 256
  EXPECT_EQ(configs[1].algorithm, 2);
  EXPECT_EQ(kernel->WorkspaceBytes(Bf16(), configs[1]), 0u);
  EXPECT_EQ(kernel->Configure(Bf16(), Gpu()), configs[0]);
}

TEST(CublasLt, LaunchesTheConfigsAlgorithm) {
  FakeEngine engine;
  engine.fuses_alpha = true;
  engine.workspaces = {0, 256, 0};
  const Registry registry = MakeRegistry(engine);
  Plan plan = *Select(registry, Bf16(), Gpu());
  plan.config = plan.kernel->Alternatives(Bf16(), Gpu())[1];
  plan.workspace_bytes = plan.kernel->WorkspaceBytes(Bf16(), plan.config);
  Operands operands(Bf16(), Distribution::kNormal, 3);
  ASSERT_TRUE(Launch(plan, Bf16(), &operands).ok());
  EXPECT_EQ(engine.launched, std::vector<int>{1});
  EXPECT_EQ(CompareWithReference(Bf16(), operands), "");
}

TEST(CublasLt, APanelTakesTheFirstAlgorithmThatFitsThePlansWorkspace) {
  FakeEngine engine;
  engine.fuses_alpha = true;
  engine.workspaces = {512};
  engine.small_workspaces = {4096, 768, 256};
  engine.small_below = 64;
  const Registry registry = MakeRegistry(engine);
  const Plan plan = *Select(registry, Bf16(), Gpu());
  Operands operands(Bf16(16), Distribution::kNormal, 3);
  ASSERT_TRUE(Launch(plan, Bf16(16), &operands).ok());
  EXPECT_EQ(engine.launched, std::vector<int>{2});
  EXPECT_EQ(CompareWithReference(Bf16(16), operands), "");
}

TEST(CublasLt, SaysSoWhereNothingFitsAPanel) {
  FakeEngine engine;
  engine.fuses_alpha = true;
  engine.small_workspaces = {4096};
  engine.small_below = 64;
  const Registry registry = MakeRegistry(engine);
  const Plan plan = *Select(registry, Bf16(), Gpu());
  Operands operands(Bf16(16), Distribution::kNormal, 3);
  const absl::Status status = Launch(plan, Bf16(16), &operands);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "cuBLASLt has no algorithm that needs at most 0 bytes of workspace");
}

TEST(CublasLt, AsksForTheAlignmentThatAddressesHave) {
  FakeEngine engine;
  engine.fuses_alpha = true;
  const Registry registry = MakeRegistry(engine);
  const Plan plan = *Select(registry, Bf16(), Gpu());
  EXPECT_EQ(engine.alignments.back(), 256u);
  Operands operands(Bf16(), Distribution::kNormal, 3);
  const Workspace a(8192 + 256);
  const Workspace d(8192 + 256);
  Arguments arguments = operands.arguments();
  arguments.b = a.data();
  arguments.a = static_cast<char*>(a.data()) + 32;
  arguments.d = d.data();
  LaunchTarget target;
  ASSERT_TRUE(plan.kernel->Launch(Bf16(), plan.config, arguments, target).ok());
  EXPECT_EQ(engine.alignments.back(), 32u);
}

TEST(CublasLt, SaysWhyItIsUnavailable) {
  FakeEngine engine;
  engine.unavailable = "cannot open libfake.so";
  const Registry registry = MakeRegistry(engine);
  const Kernel& kernel = *registry.Find("cublaslt/fp8_promoted");
  DeviceTraits device = Gpu();
  EXPECT_EQ(kernel.UnavailableReason(device), "cannot open libfake.so");
  device.compute_capability = 80;
  EXPECT_EQ(kernel.UnavailableReason(device), "needs sm_89, this is sm_80");
  device.kind = DeviceKind::kCpu;
  EXPECT_EQ(kernel.UnavailableReason(device), "runs on a CUDA device");
}

TEST(CublasLt, RejectsWhatTheDeviceHasNoAlgorithmFor) {
  FakeEngine engine;
  engine.workspaces = {};
  const Registry registry = MakeRegistry(engine);
  const Kernel& kernel = *registry.Find("cublaslt/bf16");
  EXPECT_EQ(kernel.DeviceRejection(Bf16(), Gpu()),
            "cuBLASLt has no algorithm for it on this device");
  engine.failure = absl::InternalError("cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED");
  EXPECT_EQ(kernel.DeviceRejection(Bf16(), Gpu()), "cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED");
  EXPECT_EQ(Select(registry, Bf16(), Gpu()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CublasLt, Fp8IsPromotedUnlessTheFastEntryIsNamed) {
  FakeEngine engine;
  engine.fuses_alpha = true;
  const Registry registry = MakeRegistry(engine);
  const Problem problem = MakeProblem(16, 16, 16, DataType::kFp8E4M3, DataType::kBf16, false, true);
  EXPECT_EQ(Select(registry, problem, Gpu())->kernel->traits().name, "cublaslt/fp8_promoted");
  EXPECT_EQ(Select(registry, problem, Gpu(), "cublaslt/fp8_fast")->kernel->traits().name,
            "cublaslt/fp8_fast");
}

// Square blocks in either operand or in none, scales in either order, e5m2 in one operand.
TEST(CublasLt, ScalesOfBlocksLieAsTheLibraryReadsThem) {
  FakeEngine engine;
  engine.workspaces = {512};
  const Registry registry = MakeRegistry(engine);
  Draws draws(7);
  int taken = 0;
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    QuantizedProduct product = DrawBlockScaledProduct(&draws, seed);
    const absl::StatusOr<Plan> plan =
        Select(registry, product.problem, Gpu(), "cublaslt/fp8_blocks");
    if (!plan.ok()) {
      // Square blocks along lines whose number is no multiple of 4.
      EXPECT_NE(plan.status().message().find("blocks, not for"), std::string::npos)
          << plan.status();
      continue;
    }
    ++taken;
    const Workspace workspace(plan->workspace_bytes);
    Arguments arguments = product.arguments();
    arguments.workspace = workspace.data();
    emulator::Session session;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status =
        plan->kernel->Launch(product.problem, plan->config, arguments, target);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(CheckQuantizedProduct(&product, "cublaslt/fp8_blocks"), "");
  }
  EXPECT_GT(taken, 15);
}

TEST(CublasLt, NumericsIdsNameTheAlgorithmUnlessTheyAreExact) {
  FakeEngine engine;
  engine.fuses_alpha = true;
  const Registry registry = MakeRegistry(engine);
  EXPECT_EQ(Select(registry, Bf16(), Gpu())->numerics_id,
            "cublaslt/bf16:fake-1:64x64x64 bf16,bf16->bf16 kn:algorithm1");
  const Problem int8 = MakeProblem(16, 16, 16, DataType::kInt8, DataType::kInt32, false, true);
  EXPECT_EQ(Select(registry, int8, Gpu())->numerics_id, "exact-int32");
}

TEST(BuiltinRegistry, HasEveryVendorEntryInEveryBuild) {
  for (const char* name :
       {"f64", "f32", "tf32", "f16", "bf16", "int8", "fp8_promoted", "fp8_fast", "fp8_blocks"}) {
    const Kernel* kernel = BuiltinRegistry().Find(std::string("cublaslt/") + name);
    ASSERT_NE(kernel, nullptr) << name;
    EXPECT_EQ(kernel->traits().determinism, Determinism::kFast);
  }
}

}  // namespace
}  // namespace gemmd::testing
