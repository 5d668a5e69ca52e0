// The properties of a device that selection needs; a value, so that selection is tested without
// one.
#pragma once

#include <cstdint>
#include <string>

namespace gemmd {

enum class DeviceKind : std::uint8_t {
  kCpu,
  kCuda,
  kEmulated,  // GPU kernels on the CPU, in kernels/emulator: exact, checked and slow
};

struct DeviceTraits {
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;            // "cpu", "cuda:0"
  int ordinal = 0;             // kCuda: the device's number, as the CUDA runtime counts
  std::string model;           // as the vendor prints it
  int compute_capability = 0;  // 90 for sm_90; 0 for a CPU
  int compute_units = 1;       // threads, or streaming multiprocessors
  // Roofline that predictions start from.
  double f32_gflops = 1;   // sustained by all units together
  double memory_gbps = 1;  // GB/s
  // Sustained by all matrix units together, with f32 accumulation (int32 for int8); 0 where there
  // are no such units.
  double f64_gflops = 0;  // of whichever units are faster
  double tf32_gflops = 0;
  double half_gflops = 0;  // f16 and bf16
  double byte_gflops = 0;  // int8 and fp8
};

}  // namespace gemmd
