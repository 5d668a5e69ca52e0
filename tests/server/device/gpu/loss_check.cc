#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/served_gpu.h"

namespace gemmd::testing {
namespace {

// Reads where nothing is.
class IllegalAccess final : public Kernel {
 public:
  IllegalAccess() : Kernel({"test/illegal_access", "sm_80", "", Determinism::kFast}) {}
  std::string UnavailableReason(const DeviceTraits&) const override { return ""; }
  std::string Rejection(const Problem&) const override { return ""; }
  Config Configure(const Problem&, const DeviceTraits&) const override { return {}; }
  double PredictedUs(const Problem&, const Config&, const DeviceTraits&) const override {
    return 1;
  }
  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }
  std::string NumericsId(const Problem&) const override { return ""; }
  absl::Status Launch(const Problem&, const Config&, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    Transposition t;
    t.element_bytes = 4;
    t.rows = t.columns = t.padded_rows = t.padded_columns = 64;
    t.from_leading_dimension = t.to_leading_dimension = 64;
    t.from = reinterpret_cast<const void*>(std::uintptr_t{0x100000});
    t.to = arguments.d;
    return LaunchTranspose(t, target);
  }
};

}  // namespace

void CheckLoss(GpuReport* report) {
  const SteadyClock clock;
  std::mutex mutex;
  std::vector<TimeNs> told;
  ServedGpu gpu = ServeGpu(0, &clock, [&](const absl::Status&) {
    const std::lock_guard<std::mutex> lock(mutex);
    told.push_back(clock.Now());
  });
  const IllegalAccess kernel;
  const Problem problem = MakeProblem(256, 256, 256, DataType::kF32, DataType::kF32);
  Operands operands(problem, Distribution::kNormal, 1);
  const DeviceWork good = MakeWork(&gpu, problem, &operands);
  DeviceWork bad = good;
  bad.plan.kernel = &kernel;
  Ends bad_end;
  Ends later_end;
  const TimeNs start = clock.Now();
  gpu.device->Submit(bad, bad_end.Expect());
  gpu.device->Submit(good, later_end.Expect());
  bad_end.WaitFor(0);
  later_end.WaitFor(0);
  const double milliseconds = static_cast<double>(clock.Now() - start) / 1e6;
  report->Add("an illegal access is UNAVAILABLE",
              absl::IsUnavailable(bad_end.status()) ? "" : bad_end.status().ToString());
  report->Note("what it says", std::string(bad_end.status().message()));
  report->Add("and so is what comes with it",
              absl::IsUnavailable(later_end.status()) ? "" : later_end.status().ToString());
  report->Add("told once", told.size() == 1 ? "" : absl::StrCat(told.size(), " times"));
  report->Add("all of it after", milliseconds, "ms", milliseconds < 1000, "1 s");
}

}  // namespace gemmd::testing
