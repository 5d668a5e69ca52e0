// Tests which rows may be computed together.
#include "server/scheduling/rows_planner.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd {
namespace {

// A kernel like a vendor's: its bits are those of one M.
class OfOneM final : public testing::ReferenceKernel {
 public:
  explicit OfOneM(Determinism determinism) : ReferenceKernel("test/of_one_m", determinism) {}
  std::string NumericsId(const Problem& problem) const override {
    return absl::StrCat("test/of_one_m:", problem.m);
  }
};

class RowsPlannerTest : public ::testing::Test {
 protected:
  std::optional<RowsPlan> Plan64(std::unique_ptr<const Kernel> kernel, Determinism asked) {
    std::vector<std::unique_ptr<const Kernel>> kernels;
    kernels.push_back(std::move(kernel));
    const Registry registry(std::move(kernels));
    DeviceWork work;
    work.problem = MakeProblem(1, 64, 64, DataType::kF32, DataType::kF32);
    work.problem.determinism = asked;
    absl::StatusOr<Plan> alone = Select(registry, work.problem, device_.traits());
    EXPECT_TRUE(alone.ok()) << alone.status();
    work.plan = *std::move(alone);
    return RowsPlanner(&registry, &device_, nullptr).PlanRows(work, 64);
  }

  testing::FakeClock clock_;
  testing::FakeDevice device_{&clock_, 1 << 20, 1, DeviceKind::kCuda};
};

TEST_F(RowsPlannerTest, RowsOfABatchInvariantKernelGoTogether) {
  const auto plan =
      Plan64(std::make_unique<testing::ReferenceKernel>(), Determinism::kBatchInvariant);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->problem.m, 64);
  EXPECT_EQ(plan->plan.numerics_id, "test/reference/1");
}

TEST_F(RowsPlannerTest, OfAFastKernelOnlyThoseThatAskedForTheFastClass) {
  EXPECT_TRUE(Plan64(std::make_unique<OfOneM>(Determinism::kFast), Determinism::kFast).has_value());
  // Served by it because there is no other.
  EXPECT_FALSE(Plan64(std::make_unique<OfOneM>(Determinism::kFast), Determinism::kBatchInvariant)
                   .has_value());
}

TEST_F(RowsPlannerTest, AKernelThatOnlyClaimsItsClassIsNotBelieved) {
  EXPECT_FALSE(
      Plan64(std::make_unique<OfOneM>(Determinism::kBatchInvariant), Determinism::kBatchInvariant)
          .has_value());
}

}  // namespace
}  // namespace gemmd
