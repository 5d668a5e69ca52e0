#include "kernels/cublaslt/matmul_engine.h"

namespace gemmd::cublaslt {
namespace {

class NoEngine final : public MatmulEngine {
 public:
  std::string UnavailableReason() const override { return "this build has no CUDA"; }
  std::string version() const override { return "none"; }
  absl::StatusOr<int> CurrentDevice() const override {
    return absl::UnimplementedError(UnavailableReason());
  }
  absl::StatusOr<std::shared_ptr<const MatmulPlan>> Plan(const CublasLtCall&, int, std::uint64_t,
                                                         std::uint64_t) const override {
    return absl::UnimplementedError(UnavailableReason());
  }
};

}  // namespace

const MatmulEngine& CublasLtEngine() {
  static const NoEngine* const engine = new NoEngine();
  return *engine;
}

}  // namespace gemmd::cublaslt
