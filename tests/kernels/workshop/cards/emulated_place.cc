#include "kernels/emulator/session.h"
#include "tests/kernels/workshop/cards/place.h"

namespace gemmd::testing {
namespace {

class Emulated final : public Place {
 public:
  Emulated() { device_.kind = DeviceKind::kEmulated; }

  const char* name() const override { return "in the emulator"; }
  const DeviceTraits& device() const override { return device_; }

  void* Bring(const void* host, std::uint64_t /*bytes*/) override {
    return const_cast<void*>(host);
  }
  void Empty() override {}

  std::string Run(const Kernel& kernel, const Problem& problem, const Arguments& arguments,
                  void* /*d*/) override {
    emulator::Session session;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = kernel.Launch(problem, Config(), arguments, target);
    return status.ok() ? session.report.message : status.ToString();
  }

 private:
  DeviceTraits device_;
};

}  // namespace

std::unique_ptr<Place> EmulatedPlace() { return std::make_unique<Emulated>(); }

}  // namespace gemmd::testing
