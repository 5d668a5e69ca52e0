#include "kernels/fault/fault_kernels.h"

#include <cstdint>
#include <utility>

#include "kernels/fault/stall.h"
#include "kernels/landing/transpose.h"

namespace gemmd {
namespace {

using LaunchFunction = absl::Status (*)(const Arguments&, const LaunchTarget&);

class FaultKernel final : public Kernel {
 public:
  FaultKernel(const char* name, const char* description, LaunchFunction launch)
      : Kernel(MakeTraits(name, description)), launch_(launch) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return device.kind == DeviceKind::kCuda ? "" : "runs on a CUDA device";
  }
  std::string Rejection(const Problem&) const override { return ""; }
  Config Configure(const Problem&, const DeviceTraits&) const override { return {}; }
  double PredictedUs(const Problem&, const Config&, const DeviceTraits&) const override {
    return 1;
  }
  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }
  std::string NumericsId(const Problem&) const override { return traits().name; }
  absl::Status Launch(const Problem&, const Config&, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    return launch_(arguments, target);
  }

 private:
  static Traits MakeTraits(const char* name, const char* description) {
    Traits traits;
    traits.name = name;
    traits.architecture = "cuda";
    traits.description = description;
    traits.determinism = Determinism::kBatchInvariant;  // so that no class keeps it out
    traits.only_by_name = true;
    return traits;
  }

  const LaunchFunction launch_;
};

absl::Status ReadNowhere(const Arguments& arguments, const LaunchTarget& target) {
  Transposition t;
  t.element_bytes = 4;
  t.rows = t.columns = t.padded_rows = t.padded_columns = 4;
  t.from_leading_dimension = t.to_leading_dimension = 4;
  // An address that is never mapped: there is nothing it could be derived from.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  t.from = reinterpret_cast<const void*>(std::uintptr_t{0x100000});
  t.to = arguments.d;
  return LaunchTranspose(t, target);
}

}  // namespace

void AppendFaultKernels(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  const auto add = [kernels](const char* name, const char* description, LaunchFunction launch) {
    kernels->push_back(std::make_unique<FaultKernel>(name, description, launch));
  };
  add("fault/launch_failure", "its launch is refused", [](const Arguments&, const LaunchTarget&) {
    return absl::InternalError("fault/launch_failure: the launch is refused");
  });
  add("fault/allocation_failure", "it finds no memory", [](const Arguments&, const LaunchTarget&) {
    return absl::ResourceExhaustedError("fault/allocation_failure: there is no memory");
  });
  add("fault/stall", "its stream stops for a minute",
      [](const Arguments&, const LaunchTarget& target) { return StallStream(target.stream); });
  add("fault/illegal_access", "it reads where nothing is", ReadNowhere);
}

}  // namespace gemmd
