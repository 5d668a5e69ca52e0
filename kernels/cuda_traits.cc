#include "kernels/cuda_traits.h"

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// Multiply-adds of one multiprocessor in a cycle, dense. Sources: f32 and f64 outside
// tensor cores, CUDA C++ Programming Guide, "Arithmetic Instructions: throughput of native
// arithmetic instructions"; tensor cores, the peaks of NVIDIA's architecture white papers
// (A100, GA102, AD102, H100, Blackwell B200 data sheet, RTX Blackwell) over multiprocessors,
// boost clock and 2, with f32 accumulation.
struct Rates {
  int capability;
  double f32;
  double f64;  // of tensor cores where they are faster
  double tf32;
  double half;
  double byte;
};

constexpr Rates kRates[] = {
    {80, 64, 64, 512, 1024, 2048},     // A100
    {86, 128, 2, 128, 256, 1024},      // GA10x
    {87, 128, 2, 128, 256, 1024},      // Orin
    {89, 128, 2, 128, 256, 1024},      // AD10x, fp8 with f32 accumulation: half of byte
    {90, 128, 128, 1024, 2048, 4096},  // H100, H200
    {100, 128, 64, 2048, 4096, 8192},  // B200
    {120, 128, 2, 128, 256, 1024},     // RTX Blackwell, fp8 with f32 accumulation: half of byte
};

// The shares of its peaks that an H200 sustains (docs/benchmarks/cublaslt.md): in a product of 8192
// cubed, of the peak at the highest clock, which power does not allow; in a long read, of the bus's
// rate.
constexpr double kSustainedArithmetic = 0.75;
constexpr double kSustainedMemory = 0.92;

const Rates& RatesOf(int capability) {
  const Rates* rates = &kRates[0];
  for (const Rates& each : kRates) {
    if (each.capability <= capability) rates = &each;
  }
  return *rates;
}

}  // namespace

DeviceTraits MakeCudaTraits(int ordinal, const CudaDeviceNumbers& numbers) {
  DeviceTraits traits;
  traits.kind = DeviceKind::kCuda;
  traits.name = absl::StrCat("cuda:", ordinal);
  traits.ordinal = ordinal;
  traits.model = numbers.model;
  traits.compute_capability =
      10 * numbers.compute_capability_major + numbers.compute_capability_minor;
  traits.compute_units = numbers.multiprocessors;
  const Rates& rates = RatesOf(traits.compute_capability);
  // A multiply-add is two operations.
  const double gflops_per_rate =
      2.0 * numbers.multiprocessors * numbers.clock_khz * 1e-6 * kSustainedArithmetic;
  traits.f32_gflops = rates.f32 * gflops_per_rate;
  traits.f64_gflops = rates.f64 * gflops_per_rate;
  traits.tf32_gflops = rates.tf32 * gflops_per_rate;
  traits.half_gflops = rates.half * gflops_per_rate;
  traits.byte_gflops = rates.byte * gflops_per_rate;
  traits.memory_gbps =
      2.0 * numbers.memory_clock_khz * numbers.memory_bus_bits / 8 * 1e-6 * kSustainedMemory;
  return traits;
}

}  // namespace gemmd
