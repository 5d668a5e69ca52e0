#include "kernels/cpu/panel_gemm.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/gemm.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/reference.h"

namespace gemmd {
namespace {

using testing::Distribution;
using testing::Operands;

// Works on one thread and claims to be several, so that per-worker memory is exercised.
class RotatingExecutor final : public ParallelExecutor {
 public:
  explicit RotatingExecutor(int workers) : workers_(workers) {}
  void Run(std::int64_t count, absl::FunctionRef<void(int, std::int64_t)> body) override {
    for (std::int64_t i = 0; i < count; ++i) body(static_cast<int>(i % workers_), i);
  }
  int workers() const override { return workers_; }

 private:
  const int workers_;
};

DeviceTraits Cpu(int threads) {
  DeviceTraits traits;
  traits.name = "cpu";
  traits.compute_units = threads;
  traits.f32_gflops = 10;
  traits.memory_gbps = 10;
  return traits;
}

// Computes operands->d with the plan selection makes.
void Compute(const Problem& problem, Operands* operands, int threads = 3) {
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, Cpu(threads));
  ASSERT_TRUE(plan.ok()) << plan.status();
  RotatingExecutor executor(threads);
  const testing::Workspace workspace(plan->workspace_bytes);
  Arguments arguments = operands->arguments();
  arguments.workspace = workspace.data();
  LaunchTarget target;
  target.executor = &executor;
  const absl::Status status = plan->kernel->Launch(problem, plan->config, arguments, target);
  ASSERT_TRUE(status.ok()) << status;
}

struct Types {
  DataType a;
  DataType b;
  DataType output;
};

class SmallProblems : public ::testing::TestWithParam<Types> {};

TEST_P(SmallProblems, AgreeWithTheReferenceWithinTheStatedBound) {
  constexpr Distribution kDistributions[] = {Distribution::kNormal, Distribution::kUniform,
                                             Distribution::kWideScale};
  const std::vector<Problem> problems =
      testing::SmallProblems(GetParam().a, GetParam().b, GetParam().output);
  // The many pairs with fp8 share their code: each takes some of the problems.
  const std::size_t step = GetParam().b == DataType::kFp8E4M3   ? 7
                           : GetParam().b == DataType::kFp8E5M2 ? 11
                                                                : 1;
  for (std::size_t i = 0; i < problems.size(); i += step) {
    const auto seed = static_cast<std::uint32_t>(i + 1);
    Operands operands(problems[i], kDistributions[seed % 3], seed);
    Compute(problems[i], &operands);
    ASSERT_EQ(testing::CompareWithReference(problems[i], operands), "");
  }
}

// Bytes between the lines of D belong to the caller.
TEST_P(SmallProblems, LeavePaddingUntouched) {
  Problem problem = MakeProblem(70, 33, 9, GetParam().a, GetParam().output);
  problem.b.type = GetParam().b;
  problem.d.leading_dimension = 40;
  Operands operands(problem, Distribution::kNormal, 7);
  const testing::PlaneBytes poison = operands.d;
  Compute(problem, &operands);
  const std::size_t element = SizeBits(problem.d.type) / 8;
  for (std::int64_t row = 0; row + 1 < problem.m; ++row) {
    const std::size_t offset = (row * 40 + 33) * element;
    ASSERT_EQ(std::memcmp(&operands.d[offset], &poison[offset], 7 * element), 0) << row;
  }
}

// The workspace of a single row with a long K: no rows that are not there, no workers that have
// nothing to do.
TEST_P(SmallProblems, TakeAWorkspaceInProportion) {
  const Types types = GetParam();
  Problem problem = MakeProblem(1, 1, 100000, types.a, types.output);
  problem.b.type = types.b;
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, Cpu(64));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(plan->workspace_bytes, 2 * 100000 * sizeof(double) + 1024);
}

std::vector<Types> AllTypes() {
  constexpr DataType kFp8[] = {DataType::kFp8E4M3, DataType::kFp8E5M2};
  constexpr DataType kWritten[] = {DataType::kF32, DataType::kF16, DataType::kBf16};
  std::vector<Types> types;
  for (const DataType type :
       {DataType::kF64, DataType::kF32, DataType::kF16, DataType::kBf16, DataType::kInt8}) {
    types.push_back({type, type, DefaultOutputType(type)});
  }
  for (const DataType type : {DataType::kF16, DataType::kBf16}) {
    types.push_back({type, type, DataType::kF32});
  }
  for (const DataType output : kWritten) {
    types.push_back({DataType::kInt8, DataType::kInt8, output});
    for (const DataType a : kFp8) {
      for (const DataType b : kFp8) types.push_back({a, b, output});
    }
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types, SmallProblems, ::testing::ValuesIn(AllTypes()),
                         [](const auto& info) {
                           return absl::StrCat(Name(info.param.a), "_", Name(info.param.b), "_to_",
                                               Name(info.param.output));
                         });

// Several units of rows and of columns: a slot keeps the rows of A that it packed for one unit, and
// they serve others of the same rows alone.
TEST(Threads, AnyNumberOfThemGivesTheSameBits) {
  std::mt19937 random(1);
  const auto upto = [&random](std::uint32_t most) {
    return 1 + static_cast<std::int64_t>(random() % most);
  };
  constexpr DataType kTypes[] = {DataType::kF64, DataType::kF32, DataType::kBf16,
                                 DataType::kFp8E4M3, DataType::kInt8};
  for (int i = 0; i < 20; ++i) {
    const DataType type = kTypes[i % 5];
    const Problem problem =
        MakeProblem(200 + upto(400), 100 + upto(900), upto(300), type, DefaultOutputType(type),
                    random() % 2 == 0, random() % 2 == 0);
    Operands operands(problem, Distribution::kNormal, static_cast<std::uint32_t>(i));
    const testing::PlaneBytes poison = operands.d;
    Compute(problem, &operands, 1);
    const testing::PlaneBytes of_one_thread = operands.d;
    for (const int threads : {2, 3, 16}) {
      operands.d = poison;
      Compute(problem, &operands, threads);
      EXPECT_EQ(operands.d, of_one_thread) << ToString(problem) << " on " << threads;
    }
  }
}

// A slice is launched with the workspace of the whole.
TEST(Workspace, OfAPartIsNoLarger) {
  std::mt19937 random(2);
  const auto upto = [&random](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random()) % most;
  };
  for (int i = 0; i < 200; ++i) {
    for (const DataType type : {DataType::kF32, DataType::kBf16, DataType::kInt8}) {
      const Problem whole =
          MakeProblem(upto(1 + random() % 1000), upto(1 + random() % 3000), 70, type,
                      DefaultOutputType(type), random() % 2 == 0, random() % 2 == 0);
      const Plan plan = *Select(BuiltinRegistry(), whole, Cpu(static_cast<int>(upto(8))));
      const Problem part =
          MakeProblem(upto(whole.m), upto(whole.n), 70, type, DefaultOutputType(type),
                      whole.transpose_a, whole.transpose_b);
      EXPECT_LE(plan.kernel->WorkspaceBytes(part, plan.config), plan.workspace_bytes)
          << ToString(part) << " of " << ToString(whole);
    }
  }
}

TEST(Int8, IsExactAtTheLargestKWhereInt32HoldsEverySum) {
  Problem problem = MakeProblem(2, 3, kMaxInt8K, DataType::kInt8, DataType::kInt32);
  Operands operands(problem, Distribution::kNormal, 1);
  std::fill(operands.a.begin(), operands.a.end(), char{-128});
  std::fill(operands.b.begin(), operands.b.end(), char{-128});
  Compute(problem, &operands);
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(LoadElement(problem.d, operands.d.data(), i / 3, i % 3), 16384.0 * kMaxInt8K);
  }
}

TEST(Int8, RefusesAKThatCouldOverflow) {
  const Problem problem = MakeProblem(1, 1, kMaxInt8K + 1, DataType::kInt8, DataType::kInt32);
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, Cpu(1));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(plan.status().message().find("131072"), std::string::npos) << plan.status();
  EXPECT_NE(plan.status().message().find("131071"), std::string::npos) << plan.status();
}

TEST(Int8, WithScalesIsTheExactSumRoundedOnce) {
  Problem problem = MakeProblem(3, 2, 5000, DataType::kInt8, DataType::kF32);
  problem.a_scaling = Scaling::kVector;
  problem.b_scaling = Scaling::kTensor;
  Operands operands(problem, Distribution::kNormal, 4);
  operands.a_scales = {0x1p-20F, 0.1F, 3e38F};
  operands.b_scales = {1e-30F};
  Compute(problem, &operands);
  const ReferenceResult reference = ReferenceGemm(problem, operands.arguments());
  for (std::int64_t i = 0; i < 6; ++i) {
    const double d = LoadElement(problem.d, operands.d.data(), i / 2, i % 2);
    EXPECT_EQ(d, static_cast<float>(reference.d[i])) << i;
  }
}

TEST(Fp8, SpecialValuesReachExactlyTheElementsTheyBelongTo) {
  Problem problem = MakeProblem(66, 5, 40, DataType::kFp8E5M2, DataType::kBf16);
  problem.b.type = DataType::kFp8E4M3;
  Operands operands(problem, Distribution::kUniform, 3);
  operands.a[30 * 40 + 3] = char{0x7c};                            // infinity
  operands.a[2 * 40 + 7] = char{0x7e};                             // NaN
  operands.b[9 * 5 + 4] = char{0x7f};                              // NaN
  for (int i = 0; i < 5; ++i) operands.b[3 * 5 + i] = char{0x38};  // 1
  Compute(problem, &operands);
  for (std::int64_t row = 0; row < problem.m; ++row) {
    for (std::int64_t column = 0; column < problem.n; ++column) {
      const double value = LoadElement(problem.d, operands.d.data(), row, column);
      if (row == 2 || column == 4) {
        EXPECT_TRUE(std::isnan(value)) << row << "," << column;
      } else if (row == 30) {
        EXPECT_EQ(value, INFINITY) << column;
      } else {
        EXPECT_TRUE(std::isfinite(value)) << row << "," << column;
      }
    }
  }
}

TEST(Scales, AreRefusedWhereTheyWouldBeIgnored) {
  for (const DataType type : {DataType::kF32, DataType::kInt8}) {
    Problem problem = MakeProblem(2, 3, 4, type, DefaultOutputType(type));
    problem.a_scaling = Scaling::kTensor;
    const absl::Status status = Select(BuiltinRegistry(), problem, Cpu(1)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("no scales"), std::string::npos) << status;
  }
}

// IEEE 754: NaN and infinities go where the arithmetic takes them, and nowhere else.
TEST(SpecialValues, ReachExactlyTheElementsTheyBelongTo) {
  for (const DataType type : {DataType::kF64, DataType::kF32, DataType::kF16, DataType::kBf16}) {
    Problem problem = MakeProblem(66, 5, 40, type, type);
    Operands operands(problem, Distribution::kUniform, 3);
    StoreElement(problem.a, operands.a.data(), 2, 7, std::nan(""));
    StoreElement(problem.a, operands.a.data(), 65, 0, INFINITY);
    StoreElement(problem.b, operands.b.data(), 9, 4, -INFINITY);
    StoreElement(problem.a, operands.a.data(), 30, 9, 0.0);  // 0 * -inf is NaN
    Compute(problem, &operands);
    for (std::int64_t row = 0; row < problem.m; ++row) {
      for (std::int64_t column = 0; column < problem.n; ++column) {
        const double value = LoadElement(problem.d, operands.d.data(), row, column);
        if (row == 2 || (column == 4 && (row == 30 || row == 65))) {
          EXPECT_TRUE(std::isnan(value)) << row << "," << column;
        } else if (column == 4) {
          EXPECT_EQ(value, -INFINITY) << row;
        } else if (row == 65) {
          EXPECT_EQ(value, INFINITY) << column;
        } else {
          EXPECT_TRUE(std::isfinite(value)) << row << "," << column;
        }
      }
    }
  }
}

TEST(SpecialValues, BetaZeroDoesNotReadC) {
  Problem problem = MakeProblem(4, 4, 4, DataType::kF32, DataType::kF32);
  Operands operands(problem, Distribution::kNormal, 5);
  operands.c = testing::RandomPlane(problem.c, Distribution::kNormal, 1);
  StoreElement(problem.c, operands.c.data(), 0, 0, std::nan(""));
  Compute(problem, &operands);
  EXPECT_EQ(testing::CompareWithReference(problem, operands), "");
}

}  // namespace
}  // namespace gemmd
