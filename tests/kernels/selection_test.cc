#include "kernels/selection.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

// A kernel whose every answer the test chooses.
class ScriptedKernel final : public Kernel {
 public:
  ScriptedKernel(std::string name, Determinism determinism, double predicted_us,
                 std::string rejection = "", std::string unavailable = "")
      : Kernel({std::move(name), "cpu", "", determinism}),
        predicted_us_(predicted_us),
        rejection_(std::move(rejection)),
        unavailable_(std::move(unavailable)) {}

  std::string UnavailableReason(const DeviceTraits&) const override { return unavailable_; }
  std::string Rejection(const Problem&) const override { return rejection_; }
  std::string DeviceRejection(const Problem&, const DeviceTraits&) const override {
    return device_rejection;
  }
  Config Configure(const Problem&, const DeviceTraits&) const override { return {}; }
  std::vector<Config> Alternatives(const Problem&, const DeviceTraits&) const override {
    Config second;
    second.algorithm = 2;
    return {Config(), second};
  }
  double PredictedUs(const Problem&, const Config&, const DeviceTraits&) const override {
    return predicted_us_;
  }
  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }
  std::string NumericsId(const Problem&) const override { return traits().name; }
  absl::Status Launch(const Problem&, const Config&, const Arguments&,
                      const LaunchTarget&) const override {
    return absl::OkStatus();
  }

  std::string device_rejection;

 private:
  const double predicted_us_;
  const std::string rejection_;
  const std::string unavailable_;
};

Registry MakeRegistry() {
  std::vector<std::unique_ptr<const Kernel>> kernels;
  const auto add = [&kernels](auto&&... arguments) {
    kernels.push_back(std::make_unique<ScriptedKernel>(arguments...));
  };
  add("slow", Determinism::kBatchInvariant, 20);
  add("good", Determinism::kBatchInvariant, 10);
  add("loose", Determinism::kFast, 1);
  add("picky", Determinism::kBatchInvariant, 1, "K is odd");
  add("elsewhere", Determinism::kBatchInvariant, 1, "", "needs sm_100a");
  return Registry(std::move(kernels));
}

const Problem kProblem = MakeProblem(2, 3, 5, DataType::kF32, DataType::kF32);

TEST(Selection, TakesTheFastestLegalKernelOfTheClass) {
  const Registry registry = MakeRegistry();
  EXPECT_EQ(Select(registry, kProblem, {})->kernel->traits().name, "good");
  Problem fast = kProblem;
  fast.determinism = Determinism::kFast;
  EXPECT_EQ(Select(registry, fast, {})->kernel->traits().name, "loose");
}

TEST(Selection, ObeysAName) {
  const Registry registry = MakeRegistry();
  EXPECT_EQ(Select(registry, kProblem, {}, "slow")->kernel->traits().name, "slow");
  const absl::Status unknown = Select(registry, kProblem, {}, "nope").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(unknown.message(), "kernel is \"nope\": this server has no kernel of that name");
  const absl::Status rejected = Select(registry, kProblem, {}, "loose").status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(rejected.message().find("class fast"), std::string::npos);
}

TEST(Selection, ExplainsEveryRejectionInOneLine) {
  const Registry registry = MakeRegistry();
  const std::vector<Candidate> candidates = Explain(registry, kProblem, {});
  ASSERT_EQ(candidates.size(), 5u);
  EXPECT_EQ(candidates[0].rejection, "");
  EXPECT_FALSE(candidates[0].chosen);
  EXPECT_TRUE(candidates[1].chosen);
  EXPECT_EQ(candidates[2].rejection, "class fast, and the request asks for batch_invariant");
  EXPECT_EQ(candidates[3].rejection, "K is odd");
  EXPECT_EQ(candidates[4].rejection, "needs sm_100a");
}

DeviceTraits Gpu() {
  DeviceTraits device;
  device.kind = DeviceKind::kCuda;
  device.name = "cuda:0";
  device.model = "GPU";
  return device;
}

Registry MakeRegistry(std::vector<std::unique_ptr<ScriptedKernel>> scripted) {
  std::vector<std::unique_ptr<const Kernel>> kernels;
  for (auto& kernel : scripted) kernels.push_back(std::move(kernel));
  return Registry(std::move(kernels));
}

TEST(SelectionOnCuda, FastKernelsServeWhatNoBatchInvariantOneTakes) {
  std::vector<std::unique_ptr<ScriptedKernel>> kernels;
  kernels.push_back(std::make_unique<ScriptedKernel>("vendor", Determinism::kFast, 1));
  kernels.push_back(
      std::make_unique<ScriptedKernel>("ours", Determinism::kBatchInvariant, 9, "K is odd"));
  const Registry registry = MakeRegistry(std::move(kernels));
  const absl::StatusOr<Plan> plan = Select(registry, kProblem, Gpu());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->kernel->traits().name, "vendor");
  EXPECT_EQ(plan->kernel->traits().determinism, Determinism::kFast);  // the receipt's class
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kEmulated}) {
    DeviceTraits other;
    other.kind = kind;
    EXPECT_EQ(Select(registry, kProblem, other).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(SelectionOnCuda, ABatchInvariantKernelGoesFirstHoweverSlow) {
  const Registry registry = MakeRegistry();
  EXPECT_EQ(Select(registry, kProblem, Gpu())->kernel->traits().name, "good");
  EXPECT_EQ(Explain(registry, kProblem, Gpu())[2].rejection,
            "class fast, and the request asks for batch_invariant");
}

TEST(SelectionOnCuda, WhatTheDeviceRejectsIsNotTaken) {
  std::vector<std::unique_ptr<ScriptedKernel>> kernels;
  kernels.push_back(std::make_unique<ScriptedKernel>("first", Determinism::kFast, 1));
  kernels.front()->device_rejection = "no algorithm";
  kernels.push_back(std::make_unique<ScriptedKernel>("second", Determinism::kFast, 9));
  const Registry registry = MakeRegistry(std::move(kernels));
  EXPECT_EQ(Select(registry, kProblem, Gpu())->kernel->traits().name, "second");
  EXPECT_EQ(Explain(registry, kProblem, Gpu())[0].rejection, "no algorithm");
}

// Returns the cache's answer for kProblem, chosen for a request of a class.
std::string Chosen(Determinism determinism, const MeasuredPlan& measured) {
  Problem problem = kProblem;
  problem.determinism = determinism;
  PlanCache cache;
  EXPECT_TRUE(cache.Insert(problem, Gpu(), measured).ok());
  const Registry registry = MakeRegistry();
  const absl::StatusOr<Plan> plan = Select(registry, problem, Gpu(), {}, &cache);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return absl::StrCat(plan->kernel->traits().name, " ", plan->config.algorithm, " ",
                      plan->predicted_us);
}

TEST(MeasuredPlans, GoBeforePredictions) {
  Config second;
  second.algorithm = 2;
  EXPECT_EQ(Chosen(Determinism::kFast, {"slow", second, 0.5}), "slow 2 0.5");
  EXPECT_EQ(Chosen(Determinism::kFast, {"loose", second, 7}), "loose 2 7");
}

TEST(MeasuredPlans, MustBeLegalAndStillOffered) {
  Config third;
  third.algorithm = 3;
  EXPECT_EQ(Chosen(Determinism::kFast, {"slow", third, 0.5}), "loose 0 1");
  EXPECT_EQ(Chosen(Determinism::kFast, {"picky", Config(), 0.5}), "loose 0 1");
  EXPECT_EQ(Chosen(Determinism::kFast, {"gone", Config(), 0.5}), "loose 0 1");
}

TEST(MeasuredPlans, NeverChangeBitsOfTheDefaultClass) {
  Config second;
  second.algorithm = 2;
  EXPECT_EQ(Chosen(Determinism::kBatchInvariant, {"slow", second, 0.5}), "good 0 10");
  EXPECT_EQ(Chosen(Determinism::kBatchInvariant, {"good", second, 0.5}), "good 2 0.5");
}

TEST(BuiltinRegistry, SaysWhyATypeHasNoKernelYet) {
  DeviceTraits cpu;
  cpu.name = "cpu";
  const Problem problem = MakeProblem(4, 4, 4, DataType::kTf32, DataType::kF32);
  const absl::Status status = Select(BuiltinRegistry(), problem, cpu).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("(none there multiplies tf32; "), std::string::npos) << status;
  EXPECT_NE(status.message().find(" kernels for other operand types"), std::string::npos) << status;
}

TEST(BuiltinRegistry, TheReasonOfAKernelThatTakesTheTypesComesFirst) {
  DeviceTraits cpu;
  cpu.name = "cpu";
  Problem problem = MakeProblem(4, 4, 4, DataType::kF32, DataType::kF16);
  const auto message = [&cpu](const Problem& asked, absl::string_view kernel = {}) {
    return std::string(Select(BuiltinRegistry(), asked, cpu, kernel).status().message());
  };
  EXPECT_NE(message(problem).find("(cpu/panel_f32: does not write f16; "), std::string::npos)
      << message(problem);
  EXPECT_EQ(message(problem).find("panel_f64"), std::string::npos) << message(problem);
  EXPECT_NE(message(problem, "cpu/panel_f64").find("(cpu/panel_f64: takes f64 operands)"),
            std::string::npos);
}

TEST(Problem, PrintsInOneLine) {
  Problem problem = MakeProblem(2, 3, 5, DataType::kInt8, DataType::kF32, true, true);
  problem.epilogue.alpha = 0.5;
  problem.epilogue.has_bias = true;
  problem.epilogue.activation = Activation::kGeluTanh;
  EXPECT_EQ(ToString(problem), "2x3x5 int8,int8->f32 mk alpha=0.5 bias gelu_tanh");
}

}  // namespace
}  // namespace gemmd
