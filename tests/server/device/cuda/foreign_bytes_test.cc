// No tenant's result has bytes that another one left in a GPU's memory, or in page-locked memory.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tests/server/device/cuda/cuda_fixture.h"
#include "tests/server/device/cuda/reserved_fake_cuda.h"

namespace gemmd::testing {
namespace {

// One tenant's operands are NaN, byte by byte, and so are its results; another's products of the
// same shapes follow in the same blocks and the same pinned memory. A result is NaN if they read
// any byte of the first tenant; where a line has room for more than its numbers, 0 is sent.
TEST_F(CudaDeviceTest, AnotherTenantsBytesAreInNoResult) {
  constexpr char kNan = '\xff';
  const std::pair<DataType, DataType> types[] = {{DataType::kF32, DataType::kF32},
                                                 {DataType::kF16, DataType::kF16},
                                                 {DataType::kInt8, DataType::kF32},
                                                 {DataType::kFp8E4M3, DataType::kF32}};
  const auto cuda = std::make_shared<ReservedFakeCuda>(3, false);
  StartOver(cuda, 2 * kMiB);
  int compared = 0;
  for (const auto& [type, output] : types) {
    std::uint32_t seed = 0;
    for (const Problem& problem : SmallProblems(type, output)) {
      if (++seed % 5 != 0) continue;
      Operands marked(problem, Distribution::kNormal, seed);
      for (PlaneBytes* plane : {&marked.a, &marked.b, &marked.c, &marked.bias}) {
        std::fill(plane->begin(), plane->end(), kNan);
      }
      {
        const DeviceWork work = MakeWork(problem, marked);
        for (const HostPiece& piece : work.buffers.d) {
          std::fill_n(piece.data, piece.size_bytes, kNan);
        }
        ASSERT_TRUE(Submit(work).get().status.ok());
      }
      Operands operands(problem, Distribution::kNormal, seed);
      const DeviceWork work = MakeWork(problem, operands);
      ASSERT_TRUE(Submit(work).get().status.ok());
      ClearPadding(problem.d, work.buffers.d);  // as whoever sends it does
      CopyOut(work.buffers.d, &operands.d);
      ASSERT_EQ(CompareWithReference(problem, operands), "") << ToString(problem);
      const std::string bytes(operands.d.begin(), operands.d.end());
      EXPECT_EQ(bytes.find(std::string(8, kNan)), std::string::npos) << ToString(problem);
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(cuda->rounds(), 1U);
}

}  // namespace
}  // namespace gemmd::testing
