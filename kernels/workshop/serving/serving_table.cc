#include "kernels/workshop/serving/serving_table.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/gemm.h"

namespace gemmd::serving {
namespace {

constexpr std::int64_t kSize = 4096;
constexpr std::int64_t kRows[] = {1, 16, 256, 4096};

CudaDeviceNumbers Numbers(const char* model, int major, int minor, int multiprocessors,
                          int clock_mhz, int memory_clock_mhz, int bus_bits) {
  CudaDeviceNumbers numbers;
  numbers.model = model;
  numbers.compute_capability_major = major;
  numbers.compute_capability_minor = minor;
  numbers.multiprocessors = multiprocessors;
  numbers.clock_khz = clock_mhz * 1000;
  numbers.memory_clock_khz = memory_clock_mhz * 1000;
  numbers.memory_bus_bits = bus_bits;
  return numbers;
}

// Figures: NVIDIA's data sheets and architecture white papers of each card. An H200's are what its
// driver says.
std::vector<DeviceTraits> Devices() {
  DeviceTraits cpu;
  cpu.name = cpu.model = "a CPU";
  DeviceTraits emulated;
  emulated.kind = DeviceKind::kEmulated;
  emulated.name = emulated.model = "emulated";
  emulated.compute_capability = 90;
  return {cpu,
          MakeCudaTraits(0, Numbers("A100 (sm_80)", 8, 0, 108, 1410, 1593, 5120)),
          MakeCudaTraits(0, Numbers("L40S (sm_89)", 8, 9, 142, 2520, 9000, 384)),
          MakeCudaTraits(0, Numbers("NVIDIA H200", 9, 0, 132, 1980, 3201, 6016)),
          MakeCudaTraits(0, Numbers("B200 (sm_100)", 10, 0, 148, 1965, 3996, 8192)),
          MakeCudaTraits(0, Numbers("RTX 5090 (sm_120)", 12, 0, 170, 2407, 14001, 512)),
          emulated};
}

struct Kind {
  const char* name;
  DataType a;
  DataType b;
  Scaling b_scaling = {};
  bool stays = false;  // B, on the device
};

constexpr Scaling kF16Of128 = {true, DataType::kF16, 1, 128};
constexpr Scaling kMxfp4 = {true, DataType::kE8M0, 1, 32};
constexpr Scaling kNvfp4 = {true, DataType::kFp8E4M3, 1, 16, ScaleOrder::kAlongK, false, true};

constexpr Kind kKinds[] = {
    {"f64", DataType::kF64, DataType::kF64},
    {"f32", DataType::kF32, DataType::kF32},
    {"tf32", DataType::kTf32, DataType::kTf32},
    {"f16", DataType::kF16, DataType::kF16},
    {"bf16", DataType::kBf16, DataType::kBf16},
    {"int8", DataType::kInt8, DataType::kInt8},
    {"fp8_e4m3", DataType::kFp8E4M3, DataType::kFp8E4M3},
    {"bf16 by int4-g128", DataType::kBf16, DataType::kInt4, kF16Of128},
    {"bf16 by int4-g128 that stays", DataType::kBf16, DataType::kInt4, kF16Of128, true},
    {"bf16 by mxfp4 that stays", DataType::kBf16, DataType::kFp4E2M1, kMxfp4, true},
    {"bf16 by nvfp4 that stays", DataType::kBf16, DataType::kFp4E2M1, kNvfp4, true},
    {"bf16 by int8-row that stays", DataType::kBf16, DataType::kInt8, Scaling::kVector, true},
    {"bf16 by fp8-e4m3-row that stays", DataType::kBf16, DataType::kFp8E4M3, Scaling::kVector,
     true},
};

// As the device has it: operands of tf32 and of 8 bits are K-major there, whatever was sent.
Problem ProblemOf(const Kind& kind, std::int64_t rows, const DeviceTraits& device) {
  const bool is_k_major =
      device.kind == DeviceKind::kCuda && (kind.a == DataType::kTf32 || SizeBits(kind.a) == 8);
  Problem problem =
      MakeProblem(rows, kSize, kSize, kind.a, DefaultOutputType(kind.a), false, is_k_major);
  problem.b.type = kind.b;
  problem.b_scaling = kind.b_scaling;
  if (kind.stays && device.compute_capability == 90) problem.b_packing = Packing::kStrips;
  return problem;
}

std::string Serves(const Problem& problem, const DeviceTraits& device) {
  const PlanCache& shipped = ShippedPlans();
  for (const Candidate& candidate : Explain(BuiltinRegistry(), problem, device, {}, &shipped)) {
    const std::string& name = candidate.kernel->traits().name;
    if (!candidate.chosen) continue;
    if (name.compare(0, 9, "cublaslt/") == 0) return "cuBLASLt";
    return absl::StrCat("`", name, "`", candidate.plan.is_measured ? " *" : "");
  }
  // Only the device can say that the library is there and takes the problem.
  return device.kind == DeviceKind::kCuda ? "cuBLASLt" : "none";
}

}  // namespace

std::string ServingTable() {
  std::string table = "| device | type |";
  for (const std::int64_t rows : kRows) absl::StrAppend(&table, " M = ", rows, " |");
  absl::StrAppend(&table, "\n|---|---|---|---|---|---|\n");
  for (const DeviceTraits& device : Devices()) {
    for (const Kind& kind : kKinds) {
      absl::StrAppend(&table, "| ", device.model, " | ", kind.name, " |");
      for (const std::int64_t rows : kRows) {
        absl::StrAppend(&table, " ", Serves(ProblemOf(kind, rows, device), device), " |");
      }
      absl::StrAppend(&table, "\n");
    }
  }
  return table;
}

}  // namespace gemmd::serving
