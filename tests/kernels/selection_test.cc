#include "kernels/selection.h"

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
  Config Configure(const Problem&, const DeviceTraits&) const override { return {}; }
  double PredictedUs(const Problem&, const Config&, const DeviceTraits&) const override {
    return predicted_us_;
  }
  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }
  std::string NumericsId(const Problem&) const override { return traits().name; }
  absl::Status Launch(const Problem&, const Config&, const Arguments&,
                      const LaunchTarget&) const override {
    return absl::OkStatus();
  }

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

TEST(BuiltinRegistry, SaysWhyATypeHasNoKernelYet) {
  DeviceTraits cpu;
  cpu.name = "cpu";
  const Problem problem = MakeProblem(4, 4, 4, DataType::kTf32, DataType::kF32);
  const absl::Status status = Select(BuiltinRegistry(), problem, cpu).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const auto& kernel : BuiltinRegistry().kernels()) {
    EXPECT_NE(status.message().find(kernel->traits().name), std::string::npos) << status;
  }
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
