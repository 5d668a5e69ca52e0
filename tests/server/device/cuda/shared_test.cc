// Operands and results in memory that clients share, used in place. The fake takes registered
// memory away from the CPU, so that any touch of it ends the test.
#include <cstdlib>
#include <memory>
#include <string>

#include "server/regions/region.h"
#include "tests/server/device/cuda/cuda_fixture.h"
#include "tests/testing/shared_file.h"

namespace gemmd::testing {
namespace {

constexpr std::uint64_t kFirst = 4099;  // neither a page's start nor an element's

class CudaSharedTest : public CudaDeviceTest {
 protected:
  // Computes the product with A, B, C and D in one region. Returns an error in it; empty if there
  // is none.
  std::string ComputeInPlace(const Problem& problem, std::uint32_t seed) {
    Operands operands(problem, Distribution::kNormal, seed);
    const std::uint64_t b = kFirst + operands.a.size();
    const std::uint64_t c = b + operands.b.size();
    const std::uint64_t d = c + operands.c.size();
    SharedFile file(d + operands.d.size());
    file.Write(kFirst, operands.a.data(), operands.a.size());
    file.Write(b, operands.b.data(), operands.b.size());
    file.Write(c, operands.c.data(), operands.c.size());
    file.Write(d, operands.d.data(), operands.d.size());
    auto region = Region::Open(PosixRegion{file.name(), kFirst, d - kFirst + operands.d.size()},
                               device_.get(), nullptr);
    if (!region.ok()) return region.status().ToString();
    char* const base = (*region)->mapping()->data() - kFirst;
    DeviceWork work = MakeWork(problem, operands);
    Share(base + kFirst, base + b, base + c, Access::kDirect, &work.buffers);
    work.buffers.d = {{base + d, operands.d.size(), nullptr}};
    work.buffers.d_access = Access::kDirect;
    const DeviceResult result = Submit(std::move(work)).get();
    if (!result.status.ok()) return result.status.ToString();
    const std::string bytes = file.Read(d, operands.d.size());
    operands.d.assign(bytes.begin(), bytes.end());
    return CompareWithReference(problem, operands);
  }

  static void Share(char* a, char* b, char* c, Access access, HostBuffers* buffers) {
    (*buffers)[WorkPlane::kA] = a;
    (*buffers)[WorkPlane::kB] = b;
    buffers->access[WorkPlane::kA] = buffers->access[WorkPlane::kB] = access;
    if ((*buffers)[WorkPlane::kC] == nullptr) return;
    (*buffers)[WorkPlane::kC] = c;
    buffers->access[WorkPlane::kC] = access;
  }
};

TEST_F(CudaSharedTest, SmallProductsUseTheRegionInPlace) {
  std::uint32_t seed = 1;
  for (const auto& [type, output] :
       {std::pair{DataType::kF32, DataType::kF32}, std::pair{DataType::kInt8, DataType::kInt32}}) {
    for (const Problem& problem : SmallProblems(type, output)) {
      Start(++seed);
      ASSERT_EQ(ComputeInPlace(problem, seed), "") << ToString(problem);
      EXPECT_GE(cuda_->copied_in_place_bytes(), problem.m * SizeBits(problem.d.type) / 8);
      EXPECT_EQ(cuda_->registered_bytes(), 0);
      if (seed % 8 == 7) break;
    }
  }
}

TEST_F(CudaSharedTest, LargeProductsInPanelsUseTheRegionInPlace) {
  for (std::uint32_t seed : {1, 2, 3}) {
    Start(seed);
    Problem problem = MakeProblem(seed == 1 ? 700 : 130, seed == 2 ? 700 : 90, 300, DataType::kF32,
                                  DataType::kF32);
    problem.epilogue.beta = 0.5;
    ASSERT_EQ(ComputeInPlace(problem, seed), "");
    // A, B, C and D once each: nothing of them went through staging.
    EXPECT_EQ(cuda_->copied_in_place_bytes(),
              problem.a.size_bytes() + problem.b.size_bytes() + 2 * problem.d.size_bytes());
    EXPECT_EQ(cuda_->registered_bytes(), 0);
  }
}

TEST_F(CudaSharedTest, PagesThatCannotBeLockedAreRefusedAndNothingStaysMapped) {
  Start(1);
  const SharedFile file(8192);
  cuda_->FailCall("RegisterPinned", absl::InternalError("no"));
  const auto region = Region::Open(PosixRegion{file.name(), 0, 8192}, device_.get(), nullptr);
  EXPECT_EQ(region.status().code(), absl::StatusCode::kFailedPrecondition) << region.status();
  EXPECT_EQ(cuda_->registered_bytes(), 0);
}

// Each product takes its own matrices, though one product's would be used in place.
TEST_F(CudaSharedTest, AStackInMemoryOfTheDeviceIsCopiedThere) {
  const std::string handle(64, 'h');
  Start(1);
  constexpr std::int64_t kCount = 5;
  const Problem problem = MakeProblem(16, 16, 16, DataType::kF32, DataType::kF32);
  const std::uint64_t plane = problem.a.size_bytes();
  const std::uint64_t bytes = 3 * kCount * plane;
  const std::unique_ptr<char, void (*)(void*)> memory(
      static_cast<char*>(std::aligned_alloc(256, bytes)), std::free);
  cuda_->ExportIpcMemory(handle, {memory.get(), bytes});
  std::vector<Operands> products;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const Operands& each = products.emplace_back(problem, Distribution::kNormal, i);
    std::memcpy(memory.get() + i * plane, each.a.data(), plane);
    std::memcpy(memory.get() + (kCount + i) * plane, each.b.data(), plane);
  }
  {
    auto region = Region::Open(CudaRegion{handle, 0, 0, bytes}, device_.get(), nullptr);
    ASSERT_TRUE(region.ok()) << region.status();
    char* const base = (*region)->mapping()->data();
    DeviceWork work = MakeWork(problem, products.front());
    work.stack.count = kCount;
    SetStrides(problem, WorkPlane::kA, 256, &work.stack);
    SetStrides(problem, WorkPlane::kB, 256, &work.stack);
    work.stack.d_stride = 256;
    Share(base, base + kCount * plane, nullptr, Access::kDevice, &work.buffers);
    work.buffers.d = {{base + 2 * kCount * plane, kCount * plane, nullptr}};
    work.buffers.d_access = Access::kDevice;
    const DeviceResult result = Submit(std::move(work)).get();
    ASSERT_TRUE(result.status.ok()) << result.status;
  }
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const char* const d = memory.get() + (2 * kCount + i) * plane;
    products[i].d.assign(d, d + plane);
    EXPECT_EQ(CompareWithReference(problem, products[i]), "") << i;
  }
}

TEST_F(CudaSharedTest, MemoryOfTheDeviceIsUsedWhereItLies) {
  const std::string handle(64, 'h');
  for (std::uint64_t skip : {0, 4}) {  // aligned: in place; else copied on the device
    Start(static_cast<std::uint32_t>(skip) + 1);
    const Problem problem = MakeProblem(64, 64, 64, DataType::kF32, DataType::kF32);
    Operands operands(problem, Distribution::kNormal, 5);
    const std::uint64_t plane = problem.a.size_bytes();
    const std::uint64_t bytes = 3 * plane + 256;
    const std::unique_ptr<char, void (*)(void*)> memory(
        static_cast<char*>(std::aligned_alloc(256, bytes)), std::free);
    cuda_->ExportIpcMemory(handle, {memory.get(), bytes});
    std::memcpy(memory.get() + skip, operands.a.data(), plane);
    std::memcpy(memory.get() + skip + plane, operands.b.data(), plane);
    {
      auto region = Region::Open(CudaRegion{handle, 0, skip, 3 * plane}, device_.get(), nullptr);
      ASSERT_TRUE(region.ok()) << region.status();
      char* const base = (*region)->mapping()->data();
      DeviceWork work = MakeWork(problem, operands);
      Share(base, base + plane, nullptr, Access::kDevice, &work.buffers);
      work.buffers.d = {{base + 2 * plane, plane, nullptr}};
      work.buffers.d_access = Access::kDevice;
      const DeviceResult result = Submit(std::move(work)).get();
      ASSERT_TRUE(result.status.ok()) << result.status;
      std::memcpy(operands.d.data(), memory.get() + skip + 2 * plane, plane);
      EXPECT_EQ(CompareWithReference(problem, operands), "");
      EXPECT_EQ(cuda_->open_ipc_memory(), 1);
    }
    EXPECT_EQ(cuda_->open_ipc_memory(), 0);
    for (const auto& [offset, size] :
         {std::pair{bytes, std::uint64_t{1}}, std::pair{std::uint64_t{1}, bytes},
          std::pair{~std::uint64_t{0}, std::uint64_t{2}}}) {
      EXPECT_EQ(
          Region::Open(CudaRegion{handle, 0, offset, size}, device_.get(), nullptr).status().code(),
          absl::StatusCode::kInvalidArgument);
    }
    EXPECT_EQ(Region::Open(CudaRegion{std::string(64, 'x'), 0, 0, 1}, device_.get(), nullptr)
                  .status()
                  .code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(cuda_->open_ipc_memory(), 0);
  }
}

}  // namespace
}  // namespace gemmd::testing
