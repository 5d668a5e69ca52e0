#include <cuda_runtime.h>

#include <vector>

#include "tests/kernels/mma/gpu_matrix.h"
#include "tests/kernels/workshop/cards/place.h"

namespace gemmd::testing {
namespace {

class Gpu final : public Place {
 public:
  Gpu() {
    int major = 0;
    int minor = 0;
    CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "the GPU");
    CheckCuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "the GPU");
    device_.kind = DeviceKind::kCuda;
    device_.compute_capability = 10 * major + minor;
  }

  const char* name() const override { return "on the GPU"; }
  const DeviceTraits& device() const override { return device_; }

  void* Bring(const void* host, std::uint64_t bytes) override {
    if (host == nullptr) return nullptr;
    memory_.push_back(std::make_unique<GpuMatrix>(bytes));
    memory_.back()->Put(host);
    return memory_.back()->data();
  }
  void Empty() override { memory_.clear(); }

  std::string Run(const Kernel& kernel, const Problem& problem, const Arguments& arguments,
                  void* d) override {
    const absl::Status status = kernel.Launch(problem, Config(), arguments, {});
    if (!status.ok()) return status.ToString();
    CheckCuda(cudaDeviceSynchronize(), "the kernel");
    memory_.back()->Get(d);
    return "";
  }

 private:
  DeviceTraits device_;
  std::vector<std::unique_ptr<GpuMatrix>> memory_;
};

}  // namespace

std::unique_ptr<Place> GpuPlace() { return std::make_unique<Gpu>(); }

}  // namespace gemmd::testing
