#include "kernels/cuda_traits.h"

#include <gtest/gtest.h>

#include "tests/testing/h200.h"

namespace gemmd {
namespace {

using testing::H200Numbers;

// The rates are those that cuBLASLt sustained on one: see docs/benchmarks/cublaslt.md.
TEST(CudaTraits, AreWithinATenthOfWhatAnH200Does) {
  const DeviceTraits traits = MakeCudaTraits(3, H200Numbers());
  EXPECT_EQ(traits.kind, DeviceKind::kCuda);
  EXPECT_EQ(traits.name, "cuda:3");
  EXPECT_EQ(traits.ordinal, 3);
  EXPECT_EQ(traits.compute_capability, 90);
  EXPECT_EQ(traits.compute_units, 132);
  EXPECT_NEAR(traits.f32_gflops, 50.2e3, 5e3);
  EXPECT_NEAR(traits.f64_gflops, 54e3, 5.4e3);
  EXPECT_NEAR(traits.half_gflops, 798e3, 80e3);
  EXPECT_NEAR(traits.byte_gflops, 1520e3, 152e3);
  EXPECT_NEAR(traits.tf32_gflops, 414e3, 42e3);
  EXPECT_NEAR(traits.memory_gbps, 4560, 456);
}

TEST(CudaTraits, GrowWithMultiprocessorsClockAndBus) {
  CudaDeviceNumbers numbers = H200Numbers();
  numbers.multiprocessors *= 2;
  numbers.memory_bus_bits *= 2;
  const DeviceTraits one = MakeCudaTraits(0, H200Numbers());
  const DeviceTraits two = MakeCudaTraits(0, numbers);
  EXPECT_DOUBLE_EQ(two.half_gflops, 2 * one.half_gflops);
  EXPECT_DOUBLE_EQ(two.memory_gbps, 2 * one.memory_gbps);
}

TEST(CudaTraits, AnUnknownCapabilityTakesTheRowBeforeIt) {
  CudaDeviceNumbers newer = H200Numbers();
  newer.compute_capability_minor = 3;
  EXPECT_DOUBLE_EQ(MakeCudaTraits(0, newer).half_gflops,
                   MakeCudaTraits(0, H200Numbers()).half_gflops);
  CudaDeviceNumbers older = H200Numbers();
  older.compute_capability_major = 7;
  EXPECT_GT(MakeCudaTraits(0, older).half_gflops, 0);
}

}  // namespace
}  // namespace gemmd
