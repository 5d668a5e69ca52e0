#include "kernels/hopper/common/batch_steps.h"

#include <gtest/gtest.h>

#include <vector>

namespace gemmd::hopper {
namespace {

alignas(16) char memory[512];

Arguments At(std::int64_t a, std::int64_t b, std::int64_t d) {
  Arguments arguments;
  arguments.a = memory + a;
  arguments.b = memory + b;
  arguments.d = memory + d;
  return arguments;
}

TEST(BatchSteps, AreEqualOrNot) {
  const std::vector<Arguments> equal = {At(0, 0, 0), At(16, 32, 64), At(32, 64, 128)};
  EXPECT_TRUE(StepsOf(equal).are_equal);
  EXPECT_EQ(StepsOf(equal).a, 16);
  EXPECT_EQ(StepsOf(equal).b, 32);
  EXPECT_EQ(StepsOf(equal).d, 64);
  for (const Arguments& last : {At(48, 64, 128), At(32, 80, 128), At(32, 64, 160)}) {
    EXPECT_FALSE(StepsOf(std::vector<Arguments>{equal[0], equal[1], last}).are_equal);
  }
}

TEST(BatchSteps, AreNoneForOneProblem) {
  const BatchSteps steps = StepsOf(std::vector<Arguments>{At(16, 32, 64)});
  EXPECT_TRUE(steps.are_equal);
  EXPECT_EQ(steps.a, 0);
  EXPECT_EQ(steps.d, 0);
}

TEST(BatchSteps, MayBeNothingOrGoBack) {
  const BatchSteps steps = StepsOf(std::vector<Arguments>{At(0, 64, 64), At(0, 32, 128)});
  EXPECT_TRUE(steps.are_equal);
  EXPECT_EQ(steps.a, 0);
  EXPECT_EQ(steps.b, -32);
}

// Only such distances make a batch one tensor.
TEST(BatchSteps, AreTensorStrides) {
  EXPECT_TRUE(IsTensorStep(16));
  EXPECT_FALSE(IsTensorStep(0));
  EXPECT_FALSE(IsTensorStep(8));
  EXPECT_FALSE(IsTensorStep(-16));
  EXPECT_FALSE(IsTensorStep(std::int64_t{1} << 40));
}

}  // namespace
}  // namespace gemmd::hopper
