// A vendor's library as tests wish it: computes bare products on the CPU.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/cublaslt/matmul_engine.h"
#include "tests/testing/products/reference.h"

namespace gemmd::cublaslt {

// D' = op(A') op(B'), column-major, as a library that fuses nothing would; with the scales of
// blocks in the library's order.
class FakePlan final : public MatmulPlan {
 public:
  FakePlan(const CublasLtCall& call, std::vector<std::uint64_t> workspaces,
           std::vector<int>* launched)
      : call_(call), workspaces_(std::move(workspaces)), launched_(launched) {}

  int count() const override { return static_cast<int>(workspaces_.size()); }
  std::uint64_t workspace_bytes(int index) const override {
    return workspaces_[static_cast<std::size_t>(index)];
  }
  absl::Status Launch(int index, const MatmulArguments& arguments,
                      const LaunchTarget&) const override {
    launched_->push_back(index);
    const auto layout = [](DataType type, std::int64_t rows, std::int64_t columns,
                           std::int64_t leading_dimension) {
      return MatrixLayout{type, rows, columns, Order::kColumnMajor, leading_dimension};
    };
    const CublasLtCall& c = call_;
    const MatrixLayout a =
        c.transpose_a ? layout(c.a_type, c.k, c.m, c.lda) : layout(c.a_type, c.m, c.k, c.lda);
    const MatrixLayout b =
        c.transpose_b ? layout(c.b_type, c.n, c.k, c.ldb) : layout(c.b_type, c.k, c.n, c.ldb);
    const MatrixLayout d = layout(c.d_type, c.m, c.n, c.ldd);
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t column = 0; column < c.n; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < c.k; ++k) {
          sum += Scale(c.a_scaling, arguments.a_scales, c.m, row, k) *
                 Scale(c.b_scaling, arguments.b_scales, c.n, column, k) *
                 (c.transpose_a ? LoadElement(a, arguments.a, k, row)
                                : LoadElement(a, arguments.a, row, k)) *
                 (c.transpose_b ? LoadElement(b, arguments.b, column, k)
                                : LoadElement(b, arguments.b, k, column));
        }
        StoreElement(d, arguments.d, row, column, arguments.alpha * sum);
      }
    }
    return absl::OkStatus();
  }

 private:
  // Along lines where blocks are 1x128; where they are square along K, in lines of a multiple of 4.
  double Scale(const Scaling& scaling, const float* scales, std::int64_t lines, std::int64_t line,
               std::int64_t k) const {
    if (scaling.block_k != 128) return 1;
    const std::int64_t k_blocks = ((call_.k + 127) / 128 + 3) / 4 * 4;
    return scales[scaling.block_lines == 1 ? k / 128 * lines + line
                                           : line / 128 * k_blocks + k / 128];
  }

  const CublasLtCall call_;
  const std::vector<std::uint64_t> workspaces_;
  std::vector<int>* const launched_;
};

class FakeEngine final : public MatmulEngine {
 public:
  std::string UnavailableReason() const override { return unavailable; }
  std::string version() const override { return "fake-1"; }
  absl::StatusOr<int> CurrentDevice() const override { return 0; }
  absl::StatusOr<std::shared_ptr<const MatmulPlan>> Plan(
      const CublasLtCall& call, int, std::uint64_t alignment_bytes,
      std::uint64_t workspace_limit_bytes) const override {
    if (!failure.ok()) return failure;
    alignments.push_back(alignment_bytes);
    const bool is_known = call.epilogue == FusedEpilogue::kNone && !call.has_c &&
                          (call.is_product_only || fuses_alpha);
    std::vector<std::uint64_t> fitting;
    for (const std::uint64_t bytes : call.n < small_below ? small_workspaces : workspaces) {
      if (is_known && bytes <= workspace_limit_bytes) fitting.push_back(bytes);
    }
    return std::make_shared<FakePlan>(call, fitting, &launched);
  }

  std::string unavailable;
  absl::Status failure;
  bool fuses_alpha = false;
  // Workspaces of the algorithms offered, in order; the small ones where D' has few columns.
  std::vector<std::uint64_t> workspaces = {0};
  std::vector<std::uint64_t> small_workspaces = {0};
  std::int64_t small_below = 0;
  mutable std::vector<int> launched;              // indices
  mutable std::vector<std::uint64_t> alignments;  // asked for
};

}  // namespace gemmd::cublaslt
