// A kernel that takes everything, for devices that launch nothing.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/gemm.h"

namespace gemmd::testing {

class FakeKernel final : public Kernel {
 public:
  FakeKernel() : Kernel({"test/fake", "cpu", "launches nothing", Determinism::kBatchInvariant}) {}

  std::string UnavailableReason(const DeviceTraits&) const override { return ""; }
  std::string Rejection(const Problem&) const override { return ""; }
  Config Configure(const Problem&, const DeviceTraits&) const override { return {}; }
  double PredictedUs(const Problem& problem, const Config&, const DeviceTraits&) const override {
    return 1 + problem.flops() * 1e-3;
  }
  std::uint64_t WorkspaceBytes(const Problem& problem, const Config&) const override {
    return 128 * static_cast<std::uint64_t>(problem.m);
  }
  std::string NumericsId(const Problem&) const override { return "test/fake/1"; }
  absl::Status Launch(const Problem&, const Config&, const Arguments&,
                      const LaunchTarget&) const override {
    return absl::UnimplementedError("a fake kernel launches nothing");
  }
};

// It, alone.
inline const Registry& OneFakeKernel() {
  static const Registry* const registry = [] {
    std::vector<std::unique_ptr<const Kernel>> kernels;
    kernels.push_back(std::make_unique<FakeKernel>());
    return new Registry(std::move(kernels));
  }();
  return *registry;
}

}  // namespace gemmd::testing
