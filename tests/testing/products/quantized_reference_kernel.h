// The exact product of quantized operands as a kernel of a CUDA device: what tests launch where
// there is no GPU.
#pragma once

#include <string>

#include "kernels/cpu/operand_view.h"
#include "kernels/gemm.h"
#include "tests/testing/products/exact_product.h"
#include "tests/testing/products/reference.h"

namespace gemmd::testing {

class QuantizedReferenceKernel final : public Kernel {
 public:
  QuantizedReferenceKernel()
      : Kernel({"test/quantized_f64", "sm_90", "the exact product of quantized operands",
                Determinism::kBatchInvariant}) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return device.kind == DeviceKind::kCuda ? "" : "runs on a CUDA device";
  }
  std::string Rejection(const Problem& problem) const override {
    return IsDequantized(problem) ? "" : "takes operands that are decoded";
  }
  Config Configure(const Problem&, const DeviceTraits&) const override { return {}; }
  double PredictedUs(const Problem& problem, const Config&, const DeviceTraits&) const override {
    return problem.flops() / 1e7;
  }
  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }
  std::string NumericsId(const Problem&) const override { return "test/quantized/1"; }

  absl::Status Launch(const Problem& problem, const Config&, const Arguments& arguments,
                      const LaunchTarget&) const override {
    const ExactProductResult exact =
        ExactProduct(ViewOfA(problem, arguments), ViewOfB(problem, arguments));
    const Epilogue& e = problem.epilogue;
    const MatrixLayout bias = {problem.d.type, 1, problem.n, Order::kRowMajor, problem.n};
    for (std::int64_t row = 0; row < problem.m; ++row) {
      for (std::int64_t column = 0; column < problem.n; ++column) {
        double value = e.alpha * exact.d[static_cast<std::size_t>(row * problem.n + column)];
        if (e.beta != 0) value += e.beta * LoadElement(problem.c, arguments.c, row, column);
        if (e.has_bias) value += LoadElement(bias, arguments.bias, 0, column);
        StoreElement(problem.d, arguments.d, row, column, value);
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace gemmd::testing
