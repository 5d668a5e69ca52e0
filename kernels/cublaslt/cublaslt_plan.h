// A CublasLtCall in cuBLASLt's terms: descriptors and the algorithms its heuristics offer.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cublaslt/matmul_engine.h"

namespace gemmd::cublaslt {

class CublasLtPlan final : public MatmulPlan {
 public:
  // Asks for up to 16 algorithms. REQUIRES: the handle's device is current.
  // INTERNAL: the library failed (that it knows no algorithm is no failure).
  static absl::StatusOr<std::shared_ptr<const CublasLtPlan>> Make(
      cublasLtHandle_t handle, const CublasLtCall& call, std::uint64_t alignment_bytes,
      std::uint64_t workspace_limit_bytes);

  int count() const override { return static_cast<int>(algorithms_.size()); }
  std::uint64_t workspace_bytes(int index) const override;
  absl::Status Launch(int index, const MatmulArguments& arguments,
                      const LaunchTarget& target) const override;

 private:
  CublasLtPlan(cublasLtHandle_t handle, const CublasLtCall& call) : handle_(handle), call_(call) {}

  absl::Status Describe();
  absl::Status Ask(std::uint64_t alignment_bytes, std::uint64_t workspace_limit_bytes);

  const cublasLtHandle_t handle_;
  const CublasLtCall call_;
  // The description has no addresses: a launch copies it and puts its own in.
  cublasLtMatmulDescOpaque_t description_;
  cublasLtMatrixLayoutOpaque_t a_;
  cublasLtMatrixLayoutOpaque_t b_;
  cublasLtMatrixLayoutOpaque_t c_;
  cublasLtMatrixLayoutOpaque_t d_;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
};

}  // namespace gemmd::cublaslt
