// The vendor entries, the landing transposition and the epilogue kernel on this machine's
// GPU. Not a test: it needs a GPU. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/cublaslt:cublaslt_on_gpu
// and run `cublaslt_on_gpu check|small|time`; `small` is a part of check for compute-sanitizer.
#include <cuda_runtime.h>

#include <cstdio>
#include <string>

#include "kernels/cuda_traits.h"
#include "tests/kernels/cublaslt/programs.h"
#include "tests/kernels/mma/gpu_matrix.h"

namespace gemmd::testing {
namespace {

int Attribute(cudaDeviceAttr attribute) {
  int value = 0;
  CheckCuda(cudaDeviceGetAttribute(&value, attribute, 0), "cudaDeviceGetAttribute");
  return value;
}

DeviceTraits ThisDevice() {
  cudaDeviceProp properties;
  CheckCuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  CudaDeviceNumbers numbers;
  numbers.model = properties.name;
  numbers.compute_capability_major = properties.major;
  numbers.compute_capability_minor = properties.minor;
  numbers.multiprocessors = properties.multiProcessorCount;
  numbers.clock_khz = Attribute(cudaDevAttrClockRate);
  numbers.memory_clock_khz = Attribute(cudaDevAttrMemoryClockRate);
  numbers.memory_bus_bits = Attribute(cudaDevAttrGlobalMemoryBusWidth);
  const DeviceTraits traits = MakeCudaTraits(0, numbers);
  std::printf("%s, sm_%d, %d multiprocessors, %d kHz, memory %d kHz x %d bits\n",
              traits.model.c_str(), traits.compute_capability, traits.compute_units,
              numbers.clock_khz, numbers.memory_clock_khz, numbers.memory_bus_bits);
  std::printf(
      "rooflines, TFLOP/s: f64 %.1f, f32 %.1f, tf32 %.1f, half %.1f, byte %.1f; %.0f GB/s\n",
      traits.f64_gflops / 1e3, traits.f32_gflops / 1e3, traits.tf32_gflops / 1e3,
      traits.half_gflops / 1e3, traits.byte_gflops / 1e3, traits.memory_gbps);
  return traits;
}

int Main(const std::string& mode) {
  const DeviceTraits device = ThisDevice();
  Counts counts;
  if (mode == "check") {
    counts = ProbeExtents(device) + CheckTransposition() + CheckProducts(device, 1) +
             CheckLargeProducts(device);
  } else if (mode == "small") {
    counts = CheckTransposition() + CheckProducts(device, 37);
  } else {
    counts = TimeProducts(device);
  }
  std::printf("%d passed, %d failed\n", counts.passed, counts.failed);
  return counts.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string mode = argc == 2 ? argv[1] : "";
  if (mode == "check" || mode == "small" || mode == "time") return gemmd::testing::Main(mode);
  std::fprintf(stderr, "usage: %s check|small|time\n", argv[0]);
  return 2;
}
