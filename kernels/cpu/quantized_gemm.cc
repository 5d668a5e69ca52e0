#include "kernels/cpu/quantized_gemm.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/numbers/fp8.h"
#include "base/numbers/quant/elements.h"
#include "kernels/cpu/quantized_launcher.h"
#include "kernels/cpu/row_gemm_us.h"
#include "kernels/operand_rejection.h"

namespace gemmd {
namespace {

// Returns whether cpu/panel_* take operands of these types and scalings.
bool IsOfPanels(const Problem& problem) {
  const DataType a = problem.a.type;
  const DataType b = problem.b.type;
  return ((a == DataType::kInt8 && b == DataType::kInt8) || (IsFp8(a) && IsFp8(b))) &&
         problem.a_scaling.scales_whole_lines() && problem.b_scaling.scales_whole_lines();
}

DataType AccumulateType(QuantizedSum sum) {
  switch (sum) {
    case QuantizedSum::kF32:
      return DataType::kF32;
    case QuantizedSum::kF64:
      return DataType::kF64;
    case QuantizedSum::kIntegers:
      break;
  }
  return DataType::kInt32;
}

const char* SumName(QuantizedSum sum) {
  return sum == QuantizedSum::kF32 ? "f32" : (sum == QuantizedSum::kF64 ? "f64" : "int");
}

template <QuantizedSum kSum>
const char* Arithmetic(std::int64_t k) {
  // Exact, in any order.
  if (kSum == QuantizedSum::kIntegers) return RowGemmArithmetic<float>(kExactPiece);
  return kSum == QuantizedSum::kF32 ? RowGemmArithmetic<float>(k) : RowGemmArithmetic<double>(k);
}

template <QuantizedSum kSum>
class QuantizedKernel final : public Kernel {
 public:
  explicit QuantizedKernel(std::string description)
      : Kernel({absl::StrCat("cpu/quantized_", SumName(kSum)), "cpu", std::move(description),
                Determinism::kBatchInvariant}) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return device.kind == DeviceKind::kCpu ? "" : "runs on a CPU device";
  }

  std::string Rejection(const Problem& problem) const override {
    for (const std::string& rejection :
         {OperandRejection("A", problem.a.type, problem.a_scaling),
          OperandRejection("B", problem.b.type, problem.b_scaling)}) {
      if (!rejection.empty()) return rejection;
    }
    const bool has_a = problem.a_scaling.has_scales;
    const bool has_b = problem.b_scaling.has_scales;
    if (!has_a && !has_b) return "takes operands of which one has scales";
    if (IsOfPanels(problem)) {
      return "leaves scales of whole lines of int8 and fp8 to cpu/panel_*";
    }
    if (kSum == QuantizedSum::kIntegers && !(HasIntegerSums({problem.a.type, problem.a_scaling}) &&
                                             HasIntegerSums({problem.b.type, problem.b_scaling}))) {
      return "takes two operands of integers, without offsets";
    }
    if (problem.accumulate != AccumulateType(kSum)) {
      return absl::StrCat("accumulates in ", Name(AccumulateType(kSum)));
    }
    const DataType output = problem.d.type;
    if (!IsRealOperand(output) && !(kSum == QuantizedSum::kF64 && output == DataType::kF64)) {
      return absl::StrCat("does not write ", Name(output));
    }
    return "";
  }

  Config Configure(const Problem&, const DeviceTraits& device) const override {
    Config config;
    config.tile_m = kPanelRows;
    config.tile_n = Units::kMostColumns;
    config.threads = device.compute_units;
    return config;
  }

  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override {
    return RowGemmUs(problem, config.threads, device, kSum == QuantizedSum::kF64 ? 0.5 : 1.0,
                     RowsOfDecoding(problem, kSum == QuantizedSum::kF32));
  }

  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const override {
    return QuantizedWorkspace<kSum>(problem, config.threads).total_bytes;
  }

  std::string NumericsId(const Problem& problem) const override {
    return absl::StrCat(traits().name, ":", Name(problem.a.type), "*", Name(problem.a_scaling), ",",
                        Name(problem.b.type), "*", Name(problem.b_scaling), ":k", problem.k, ":",
                        Arithmetic<kSum>(problem.k));
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    if (target.executor == nullptr) return absl::InternalError("a CPU kernel needs an executor");
    QuantizedLauncher<kSum>(problem, arguments, config.threads, target.executor).Run();
    return absl::OkStatus();
  }
};

}  // namespace

void AppendQuantizedCpuKernels(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  kernels->push_back(std::make_unique<QuantizedKernel<QuantizedSum::kIntegers>>(
      "integers: exact pieces of K, scaled and summed in f64"));
  kernels->push_back(std::make_unique<QuantizedKernel<QuantizedSum::kF32>>(
      "decoded to f32 in registers, then as panel_f32"));
  kernels->push_back(std::make_unique<QuantizedKernel<QuantizedSum::kF64>>(
      "decoded to f64 exactly, then as panel_f64"));
}

}  // namespace gemmd
