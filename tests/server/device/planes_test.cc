#include "server/device/planes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Planes, AreOfAOfBOrOfNeither) {
  std::vector<WorkPlane> planes = {WorkPlane::kC, WorkPlane::kBias};
  planes.insert(planes.end(), kPlanesOfA.begin(), kPlanesOfA.end());
  planes.insert(planes.end(), kPlanesOfB.begin(), kPlanesOfB.end());
  std::sort(planes.begin(), planes.end());
  EXPECT_EQ(planes, std::vector<WorkPlane>(kWorkPlanes.begin(), kWorkPlanes.end()));
  EXPECT_EQ(kVectorPlanes.size(), kWorkPlaneCount - 3);
  EXPECT_EQ(kScalePlanes.size(), kVectorPlanes.size() - 1);
}

TEST(Planes, HaveValuesOfTheirOwnAndBeginWithNone) {
  Planes<int> numbers;
  for (const WorkPlane plane : kWorkPlanes) EXPECT_EQ(numbers[plane], 0);
  for (const WorkPlane plane : kWorkPlanes) numbers[plane] = static_cast<int>(plane) + 1;
  for (const WorkPlane plane : kWorkPlanes) EXPECT_EQ(numbers[plane], static_cast<int>(plane) + 1);
}

TEST(Planes, BecomeTheArgumentsOfTheirNames) {
  const std::array<float, kWorkPlaneCount> memory{};
  Planes<const void*> planes;
  const auto at = [&memory](WorkPlane plane) { return &memory[static_cast<std::size_t>(plane)]; };
  for (const WorkPlane plane : kWorkPlanes) planes[plane] = at(plane);
  const Arguments arguments = ArgumentsOf(planes);
  EXPECT_EQ(arguments.a, at(WorkPlane::kA));
  EXPECT_EQ(arguments.b, at(WorkPlane::kB));
  EXPECT_EQ(arguments.c, at(WorkPlane::kC));
  EXPECT_EQ(arguments.bias, at(WorkPlane::kBias));
  EXPECT_EQ(arguments.a_scales, at(WorkPlane::kAScales));
  EXPECT_EQ(arguments.b_scales, at(WorkPlane::kBScales));
  EXPECT_EQ(arguments.a_zero_points, at(WorkPlane::kAZeroPoints));
  EXPECT_EQ(arguments.b_zero_points, at(WorkPlane::kBZeroPoints));
  EXPECT_EQ(arguments.a_tensor_scale, at(WorkPlane::kATensorScale));
  EXPECT_EQ(arguments.b_tensor_scale, at(WorkPlane::kBTensorScale));
  EXPECT_EQ(arguments.d, nullptr);
  EXPECT_EQ(arguments.workspace, nullptr);
}

TEST(Planes, OfAProductTakeTheirBytesTogether) {
  Problem problem = MakeProblem(2, 3, 4, DataType::kInt8, DataType::kF16);
  std::uint64_t bytes = 8 + 12 + 2 * 6;
  EXPECT_EQ(ProductBytes(problem), bytes);
  problem.epilogue.has_bias = true;
  EXPECT_EQ(ProductBytes(problem), bytes += 2 * 3);
  problem.epilogue.beta = 1;
  EXPECT_EQ(ProductBytes(problem), bytes += 2 * 6);
  problem.a_scaling = Scaling::kVector;
  problem.b_scaling = Scaling::kTensor;
  EXPECT_EQ(ProductBytes(problem), bytes += 4 * 2 + 4);
  problem.a_scaling.has_zero_points = true;
  EXPECT_EQ(ProductBytes(problem), bytes += 2);
}

}  // namespace
}  // namespace gemmd
