// The binary64 reference as a kernel of a CUDA device: what tests launch where there is no
// GPU. It insists on the layouts that operands land in.
#pragma once

#include <atomic>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/gemm.h"
#include "tests/testing/products/reference.h"

namespace gemmd::testing {

class ReferenceKernel : public Kernel {
 public:
  explicit ReferenceKernel(std::string name = "test/reference",
                           Determinism determinism = Determinism::kBatchInvariant)
      : Kernel({std::move(name), "sm_90", "the binary64 reference", determinism}) {}

  // Launches so far, by all threads.
  int launches() const { return launches_; }
  // Calls of LaunchBatch(), and of LaunchGroups().
  int batches() const { return batches_; }
  int groups() const { return groups_; }

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return device.kind == DeviceKind::kCuda ? "" : "runs on a CUDA device";
  }

  std::string Rejection(const Problem& problem) const override {
    const bool is_8_bit = SizeBits(problem.a.type) == 8;
    if ((is_8_bit || problem.a.type == DataType::kTf32) &&
        !(problem.a_is_k_major() && problem.b_is_k_major())) {
      return "takes K-major operands";
    }
    if (is_8_bit && (problem.m % 16 != 0 || problem.n % 16 != 0 || problem.k % 16 != 0)) {
      return "takes multiples of 16";
    }
    for (const MatrixLayout* layout : {&problem.a, &problem.b, &problem.d}) {
      if (layout->leading_dimension * SizeBits(layout->type) % 128 != 0) {
        return "takes lines at multiples of 16 bytes";
      }
    }
    return "";
  }

  Config Configure(const Problem&, const DeviceTraits&) const override { return {}; }
  double PredictedUs(const Problem& problem, const Config&, const DeviceTraits&) const override {
    return problem.flops() / 1e7;
  }
  std::uint64_t WorkspaceBytes(const Problem& problem, const Config&) const override {
    return static_cast<std::uint64_t>(problem.m) * 8;
  }
  std::string NumericsId(const Problem&) const override { return "test/reference/1"; }

  absl::Status LaunchBatch(const Problem& problem, const Config& config,
                           absl::Span<const Arguments> batch,
                           const LaunchTarget& target) const override {
    ++batches_;
    return Kernel::LaunchBatch(problem, config, batch, target);
  }

  bool TakesGroups(const Problem& problem, std::int64_t b_step) const override {
    return problem.d.order == Order::kRowMajor && problem.a_is_k_major() && b_step > 0;
  }

  absl::Status LaunchGroups(const Problem& problem, const Config& config, const RowGroups& groups,
                            const Arguments& arguments, const LaunchTarget& target) const override {
    ++groups_;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < groups.row_ends.size(); ++i) {
      Problem own = problem;
      own.m = groups.row_ends[i] - begin;
      own.a.rows = own.c.rows = own.d.rows = own.m;
      Arguments at = arguments;
      const auto move = [](auto* plane, std::int64_t bytes) -> decltype(plane) {
        using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(plane)>>,
                                        const char, char>;
        return plane == nullptr ? plane : static_cast<Byte*>(plane) + bytes;
      };
      const auto lines = [&](const MatrixLayout& layout) {
        return begin * layout.leading_dimension * SizeBits(layout.type) / 8;
      };
      at.a = move(at.a, lines(problem.a));
      at.c = move(at.c, lines(problem.c));
      at.d = move(at.d, lines(problem.d));
      at.b = move(at.b, static_cast<std::int64_t>(i) * groups.b_step);
      at.bias = move(at.bias, static_cast<std::int64_t>(i) * groups.bias_step);
      begin = groups.row_ends[i];
      if (own.m == 0) continue;
      if (absl::Status s = Launch(own, config, at, target); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget&) const override {
    ++launches_;
    if (std::string reason = Rejection(problem); !reason.empty()) {
      return absl::InternalError(
          absl::StrCat(ToString(problem), " reached a kernel that ", reason));
    }
    const ReferenceResult result = ReferenceGemm(problem, arguments);
    for (std::int64_t row = 0; row < problem.m; ++row) {
      for (std::int64_t column = 0; column < problem.n; ++column) {
        StoreElement(problem.d, arguments.d, row, column, result.d[row * problem.n + column]);
      }
    }
    // A workspace that another work owns would be noticed by it.
    auto* const workspace = static_cast<char*>(arguments.workspace);
    for (std::uint64_t i = 0; i < WorkspaceBytes(problem, config); ++i) workspace[i] = 'w';
    return absl::OkStatus();
  }

 private:
  mutable std::atomic<int> launches_{0};
  mutable std::atomic<int> batches_{0};
  mutable std::atomic<int> groups_{0};
};

}  // namespace gemmd::testing
