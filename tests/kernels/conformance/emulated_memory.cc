#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/emulator/session.h"
#include "tests/kernels/conformance/target_memory.h"

namespace gemmd::conformance {
namespace {

class Memory final : public TargetMemory {
 public:
  ~Memory() override {
    for (void* each : allocated_) std::free(each);
  }
  std::string machine() const override { return "kernels/emulator"; }
  LaunchTarget target() override {
    LaunchTarget target;
    target.emulator = &session_;
    return target;
  }
  absl::Status Wait() override { return absl::OkStatus(); }
  void* Allocate(std::uint64_t bytes) override {
    allocated_.push_back(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    if (allocated_.back() == nullptr) std::abort();
    return allocated_.back();
  }
  absl::Status Put(void* to, const void* from, std::uint64_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Get(void* to, const void* from, std::uint64_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }

 private:
  emulator::Session session_;
  std::vector<void*> allocated_;
};

}  // namespace

std::unique_ptr<TargetMemory> EmulatedMemory() { return std::make_unique<Memory>(); }

}  // namespace gemmd::conformance
