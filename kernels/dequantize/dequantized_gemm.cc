#include "kernels/dequantize/dequantized_gemm.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/dequantize/dequantize.h"
#include "kernels/dequantize/dequantized_problem.h"
#include "kernels/epilogue/epilogue.h"
#include "kernels/operand_rejection.h"

namespace gemmd {
namespace {

constexpr double kLaunchUs = 2;  // a queued launch, as the device sees it
constexpr double kEmulatedElementsPerUs = 2;

// Returns whether the vendor's library multiplies the codes of such operands on that device.
bool IsForLibrary(const Problem& problem, const DeviceTraits& device) {
  if (device.kind != DeviceKind::kCuda || IsDequantized(problem)) return false;
  if (problem.a.type == DataType::kInt8) {
    return device.compute_capability >= 80 && problem.accumulate == DataType::kInt32;
  }
  // It has no product of two fp8_e5m2 operands.
  return device.compute_capability >= 89 && problem.accumulate == DataType::kF32 &&
         !(problem.a.type == DataType::kFp8E5M2 && problem.b.type == DataType::kFp8E5M2);
}

Dequantization OfA(const Problem& problem, const Arguments& arguments) {
  Dequantization d;
  d.element = problem.a.type;
  d.scaling = problem.a_scaling;
  d.lines = problem.m;
  d.k = problem.k;
  d.codes = arguments.a;
  d.codes_bytes = problem.a.size_bytes();
  d.line_stride = problem.a_row_stride();
  d.k_stride = problem.a_inner_stride();
  d.scales = arguments.a_scales;
  d.zero_points = arguments.a_zero_points;
  d.tensor_scale = arguments.a_tensor_scale;
  d.offsets = arguments.a_offsets;
  d.scale_lines = problem.a_scale_lines;
  return d;
}

Dequantization OfB(const Problem& problem, const Arguments& arguments) {
  Dequantization d;
  d.element = problem.b.type;
  d.scaling = problem.b_scaling;
  d.lines = problem.n;
  d.k = problem.k;
  d.codes = arguments.b;
  d.codes_bytes = problem.b.size_bytes();
  d.line_stride = problem.b_column_stride();
  d.k_stride = problem.b_inner_stride();
  d.scales = arguments.b_scales;
  d.zero_points = arguments.b_zero_points;
  d.tensor_scale = arguments.b_tensor_scale;
  d.offsets = arguments.b_offsets;
  d.scale_lines = problem.b_scale_lines;
  return d;
}

class DequantizedGemm final : public Kernel {
 public:
  explicit DequantizedGemm(const Kernel* inner)
      : Kernel({absl::StrCat("dequantize/", inner->traits().name), inner->traits().architecture,
                absl::StrCat("quantized operands decoded, then ", inner->traits().name),
                inner->traits().determinism}),
        inner_(*inner) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return inner_.UnavailableReason(device);
  }

  std::string Rejection(const Problem& problem) const override {
    if (!IsQuantizedType(problem.a.type) && !IsQuantizedType(problem.b.type)) {
      return "takes operands of which one is quantized";
    }
    for (const std::string& rejection :
         {OperandRejection("A", problem.a.type, problem.a_scaling),
          OperandRejection("B", problem.b.type, problem.b_scaling)}) {
      if (!rejection.empty()) return rejection;
    }
    const DataType output = problem.d.type;
    if (!IsRealOperand(output) &&
        !(output == DataType::kF64 && problem.accumulate == DataType::kF64)) {
      return absl::StrCat("does not write ", Name(output));
    }
    const std::string rejection = inner_.Rejection(DequantizedLayout(problem).product);
    if (rejection.empty()) return "";
    return absl::StrCat("of operands decoded to ", Name(DequantizedType(problem)), ": ", rejection);
  }

  std::string DeviceRejection(const Problem& problem, const DeviceTraits& device) const override {
    if (IsForLibrary(problem, device)) return "leaves these operands to the vendor's library";
    return inner_.DeviceRejection(DequantizedLayout(problem).product, device);
  }

  Config Configure(const Problem& problem, const DeviceTraits& device) const override {
    return inner_.Configure(DequantizedLayout(problem).product, device);
  }

  std::vector<Config> Alternatives(const Problem& problem,
                                   const DeviceTraits& device) const override {
    return inner_.Alternatives(DequantizedLayout(problem).product, device);
  }

  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override {
    const DequantizedLayout layout(problem);
    const double product_us = inner_.PredictedUs(layout.product, config, device);
    const auto bytes = [](const MatrixLayout& plane) {
      return static_cast<double>(plane.size_bytes());
    };
    double moved = 2 * bytes(layout.product.d) + bytes(problem.d);
    double launches = 1;
    if (layout.a.is_decoded) {
      moved += bytes(problem.a) + bytes(layout.product.a);
      launches += 2;
    }
    if (layout.b.is_decoded) {
      moved += bytes(problem.b) + bytes(layout.product.b);
      launches += 2;
    }
    if (device.kind == DeviceKind::kEmulated) return product_us + moved / kEmulatedElementsPerUs;
    return product_us + launches * kLaunchUs + moved / (device.memory_gbps * 1e3);
  }

  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const override {
    const DequantizedLayout layout(problem);
    return layout.workspace + inner_.WorkspaceBytes(layout.product, config);
  }

  std::string NumericsId(const Problem& problem) const override {
    return Named(problem, inner_.NumericsId(DequantizedLayout(problem).product));
  }
  std::string PlannedNumericsId(const Problem& problem, const Config& config) const override {
    return Named(problem, inner_.PlannedNumericsId(DequantizedLayout(problem).product, config));
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    const DequantizedLayout layout(problem);
    char* const workspace = static_cast<char*>(arguments.workspace);
    const auto decode = [&](Dequantization d, const DequantizedLayout::Operand& to,
                            const void** values, const void** factors) {
      d.output = layout.type;
      d.values = workspace + to.values;
      d.line_scales = reinterpret_cast<float*>(workspace + to.line_scales);
      d.line_factors = reinterpret_cast<float*>(workspace + to.line_factors);
      *values = d.values;
      *factors = d.line_factors;
      return LaunchDequantize(d, target);
    };
    Arguments product = arguments;
    Arguments epilogue = arguments;
    if (layout.a.is_decoded) {
      const absl::Status status =
          decode(OfA(problem, arguments), layout.a, &product.a, &epilogue.a_scales);
      if (!status.ok()) return status;
      product.a_is_settled = false;
    }
    if (layout.b.is_decoded) {
      const absl::Status status =
          decode(OfB(problem, arguments), layout.b, &product.b, &epilogue.b_scales);
      if (!status.ok()) return status;
      product.b_is_settled = false;
    }
    product.d = workspace + layout.sums;
    product.workspace = workspace + layout.workspace;
    absl::Status status = inner_.Launch(layout.product, config, product, target);
    if (!status.ok()) return status;
    Problem scaled = problem;
    if (problem.a_scaling.has_scales) scaled.a_scaling = Scaling::kVector;
    if (problem.b_scaling.has_scales) scaled.b_scaling = Scaling::kVector;
    const MatrixLayout& sums = layout.product.d;
    return LaunchEpilogue(scaled, {sums.type, product.d, sums.leading_dimension}, epilogue, target);
  }

 private:
  std::string Named(const Problem& problem, const std::string& inner) const {
    return absl::StrCat("dequantize-", Name(DequantizedType(problem)), ":", Name(problem.a.type),
                        "*", Name(problem.a_scaling), ",", Name(problem.b.type), "*",
                        Name(problem.b_scaling), ":", inner);
  }

  const Kernel& inner_;
};

// Returns whether the kernel multiplies operands of a type to decode to.
bool TakesValues(const Kernel& kernel) {
  constexpr std::int64_t kSide = 256;  // a multiple of every alignment
  for (const DataType type : {DataType::kBf16, DataType::kF16, DataType::kF32, DataType::kF64}) {
    const DataType sums = type == DataType::kF64 ? DataType::kF64 : DataType::kF32;
    Problem product = MakeProblem(kSide, kSide, kSide, type, sums, false, true);
    product.accumulate = sums;
    if (kernel.Rejection(product).empty()) return true;
  }
  return false;
}

}  // namespace

void AppendDequantizedGemm(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  const std::size_t count = kernels->size();
  for (std::size_t i = 0; i < count; ++i) {
    const Kernel* const inner = (*kernels)[i].get();
    if (inner->traits().architecture == "cpu" || inner->traits().only_by_name) continue;
    if (TakesValues(*inner)) kernels->push_back(std::make_unique<DequantizedGemm>(inner));
  }
}

}  // namespace gemmd
