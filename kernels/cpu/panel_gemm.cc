#include "kernels/cpu/panel_gemm.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/element_types.h"
#include "kernels/cpu/int8_launcher.h"
#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/panel_launcher.h"
#include "kernels/cpu/row_gemm_us.h"

namespace gemmd {
namespace {

bool IsInt8(DataType type) { return type == DataType::kInt8; }

// "f32", or "fp8_e4m3_e5m2" where A's type is not B's.
std::string OperandsName(DataType a, DataType b) {
  if (a == b) return std::string(Name(a));
  return absl::StrCat(Name(a), "_", b == DataType::kFp8E4M3 ? "e4m3" : "e5m2");
}

bool Writes(DataType a, DataType output) {
  switch (output) {
    case DataType::kF32:
      return a != DataType::kF64;
    case DataType::kInt32:
      return IsInt8(a);
    case DataType::kF16:
    case DataType::kBf16:
      return output == a || IsInt8(a) || IsFp8(a);
    default:
      return output == a && !IsInt8(a) && !IsFp8(a);
  }
}

template <typename Product>
class PanelKernel : public Kernel {
 public:
  explicit PanelKernel(std::string description)
      : PanelKernel(PanelName(), std::move(description)) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return device.kind == DeviceKind::kCpu ? "" : "runs on a CPU device";
  }

  std::string Rejection(const Problem& problem) const override {
    if (problem.a.type != kTypeOfA || problem.b.type != kTypeOfB) {
      return kTypeOfA == kTypeOfB
                 ? absl::StrCat("takes ", Name(kTypeOfA), " operands")
                 : absl::StrCat("takes ", Name(kTypeOfA), " times ", Name(kTypeOfB));
    }
    if (problem.accumulate != Product::kAccumulateType) {
      return absl::StrCat("accumulates in ", Name(Product::kAccumulateType));
    }
    if (!Writes(kTypeOfA, problem.d.type)) {
      return absl::StrCat("does not write ", Name(problem.d.type));
    }
    const bool has_scales =
        problem.a_scaling != Scaling::kNone || problem.b_scaling != Scaling::kNone;
    if (has_scales && !Product::kScaled) return "takes no scales";
    if (!problem.a_scaling.scales_whole_lines() || !problem.b_scaling.scales_whole_lines()) {
      return "takes scales of operands or of whole lines";
    }
    if (!IsInt8(kTypeOfA)) return "";
    const Epilogue& e = problem.epilogue;
    if (problem.k > kMaxInt8K) {
      return absl::StrCat("K is ", problem.k, ", and int32 holds every sum only up to ", kMaxInt8K);
    }
    if (problem.d.type == DataType::kInt32 && (has_scales || e.alpha != 1 || e.beta != 0 ||
                                               e.has_bias || e.activation != Activation::kNone)) {
      return "int32 output is the exact product: no scales, alpha, beta, bias or activation (ask "
             "for f32)";
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
    return RowGemmUs(problem, config.threads, device, kTypeOfA == DataType::kF64 ? 0.5 : 1.0,
                     PanelWorkspace<Product>::kWidened ? RowsOfDecoding(problem, true) : 0);
  }

  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const override {
    return PanelWorkspace<Product>(problem, config.threads).total_bytes;
  }

  std::string NumericsId(const Problem& problem) const override {
    // Integers are exact: every kernel that says so has equal bits.
    if (IsInt8(kTypeOfA) && problem.d.type == DataType::kInt32) return "exact-int32";
    if (IsInt8(kTypeOfA)) return traits().name;  // so are its sums
    return absl::StrCat(traits().name, ":k", problem.k, ":",
                        RowGemmArithmetic<typename Product::Multiply>(problem.k));
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    if (target.executor == nullptr) return absl::InternalError("a CPU kernel needs an executor");
    PanelLauncher<Product>(problem, arguments, config.threads, target.executor).Run();
    return absl::OkStatus();
  }

 protected:
  PanelKernel(std::string name, std::string description)
      : Kernel({std::move(name), "cpu", std::move(description), Determinism::kBatchInvariant}) {}

  static std::string PanelName() {
    return absl::StrCat("cpu/panel_", OperandsName(kTypeOfA, kTypeOfB));
  }

 private:
  static constexpr DataType kTypeOfA = Product::A::kType;
  static constexpr DataType kTypeOfB = Product::B::kType;
};

// The exact sums of int8 by another way.
class VnniInt8Kernel final : public PanelKernel<Int8Product> {
 public:
  VnniInt8Kernel()
      : PanelKernel("cpu/vnni_int8", "exact: four products a lane by AVX-512 VNNI, in int32") {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    if (!HasInt8Rows()) return "needs a processor with AVX-512 VNNI";
    return PanelKernel::UnavailableReason(device);
  }

  std::string Rejection(const Problem& problem) const override {
    std::string rejection = PanelKernel::Rejection(problem);
    if (rejection.empty() && problem.n < kLeastColumns) {
      rejection = absl::StrCat("takes at least ", kLeastColumns, " columns, not ", problem.n);
    }
    return rejection;
  }

  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override {
    return PanelKernel::PredictedUs(problem, config, device) / static_cast<double>(kInt8TimesF32);
  }

  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const override {
    return Int8Workspace(problem, config.threads).total_bytes;
  }

  // The bits are those of cpu/panel_int8, and so is the name.
  std::string NumericsId(const Problem& problem) const override {
    return problem.d.type == DataType::kInt32 ? PanelKernel::NumericsId(problem) : PanelName();
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    if (target.executor == nullptr) return absl::InternalError("a CPU kernel needs an executor");
    Int8Launcher(problem, arguments, config.threads, target.executor).Run();
    return absl::OkStatus();
  }

 private:
  static constexpr std::int64_t kLeastColumns = 8;  // else a strip is mostly padding
};

}  // namespace

void AppendCpuKernels(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  const auto append = [kernels](auto kernel) { kernels->push_back(std::move(kernel)); };
  constexpr char kWidened[] = "widened to f32, then as panel_f32";
  append(std::make_unique<PanelKernel<PlainProduct<F64>>>("a chain of FMAs an element"));
  append(std::make_unique<PanelKernel<PlainProduct<F32>>>(
      "16 chains of FMAs an element, one where K is at most 256"));
  append(std::make_unique<PanelKernel<PlainProduct<F16>>>(kWidened));
  append(std::make_unique<PanelKernel<PlainProduct<Bf16>>>(kWidened));
  // Before panel_int8: of equal predictions the first is taken.
  append(std::make_unique<VnniInt8Kernel>());
  append(std::make_unique<PanelKernel<Int8Product>>(
      "exact: f32 pieces of 1024 terms, summed in int32"));
  append(std::make_unique<PanelKernel<Fp8Product<Fp8E4M3, Fp8E4M3>>>(kWidened));
  append(std::make_unique<PanelKernel<Fp8Product<Fp8E5M2, Fp8E5M2>>>(kWidened));
  append(std::make_unique<PanelKernel<Fp8Product<Fp8E4M3, Fp8E5M2>>>(kWidened));
  append(std::make_unique<PanelKernel<Fp8Product<Fp8E5M2, Fp8E4M3>>>(kWidened));
}

}  // namespace gemmd
