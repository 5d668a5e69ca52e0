// A CudaDevice over a fake runtime, and works to give it.
#pragma once

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/cuda_device.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd::testing {

inline constexpr std::uint64_t kMiB = 1 << 20;

class CudaDeviceTest : public ::testing::Test {
 protected:
  // Makes the device anew over a fake of that seed.
  void Start(std::uint32_t seed, std::uint64_t memory_bytes = 256 * kMiB) {
    StartOver(std::make_shared<FakeCuda>(seed), memory_bytes);
  }
  void StartOver(std::shared_ptr<FakeCuda> cuda, std::uint64_t memory_bytes) {
    device_.reset();
    cuda_ = std::move(cuda);
    CudaDevice::Options options;
    options.memory_bytes = memory_bytes;
    options.pinned_bytes = pinned_bytes_;
    options.unpinned_bytes = std::uint64_t{1} << 30;
    options.staging_threads = 2;
    options.panel_bytes = 64 << 10;
    options.stall_timeout_ms = 1000;
    options.on_lost = [this](const absl::Status& status) {
      lost_.push_back(std::string(status.message()));
    };
    absl::StatusOr<std::unique_ptr<CudaDevice>> device =
        CudaDevice::Create(cuda_, options, &clock_);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  DeviceWork MakeWork(const Problem& problem, const Operands& operands) {
    DeviceWork work;
    work.problem = problem;
    absl::StatusOr<Plan> plan = Select(registry_, device_->Landed(problem), device_->traits());
    EXPECT_TRUE(plan.ok()) << plan.status();
    work.plan = *std::move(plan);
    work.buffers[WorkPlane::kA] = operands.a.data();
    work.buffers[WorkPlane::kB] = operands.b.data();
    if (!operands.c.empty()) work.buffers[WorkPlane::kC] = operands.c.data();
    if (!operands.bias.empty()) work.buffers[WorkPlane::kBias] = operands.bias.data();
    if (!operands.a_scales.empty()) work.buffers[WorkPlane::kAScales] = operands.a_scales.data();
    if (!operands.b_scales.empty()) work.buffers[WorkPlane::kBScales] = operands.b_scales.data();
    absl::StatusOr<HostBuffer> d = device_->AllocateResult(problem.d);
    EXPECT_TRUE(d.ok()) << d.status();
    work.buffers.d = *std::move(d);
    return work;
  }

  std::future<DeviceResult> Submit(DeviceWork work) {
    std::promise<DeviceResult> promise;
    std::future<DeviceResult> result = promise.get_future();
    device_->Submit(std::move(work), [promise = std::move(promise)](DeviceResult done) mutable {
      promise.set_value(std::move(done));
    });
    return result;
  }

  // Returns an error in the product; empty if there is none.
  std::string Compute(const Problem& problem, std::uint32_t seed) {
    Operands operands(problem, Distribution::kNormal, seed);
    const DeviceWork work = MakeWork(problem, operands);
    const DeviceResult result = Submit(work).get();
    if (!result.status.ok()) return result.status.ToString();
    CopyOut(work.buffers.d, &operands.d);
    return CompareWithReference(problem, operands);
  }

  // Returns whether all blocks are given back, once the streams have done what they were given.
  bool AllIsFree() {
    const CudaEvent looked = *cuda_->CreateEvent();
    constexpr int kLooks = 10000;
    for (int i = 0; i < kLooks && cuda_->allocated_bytes() != 0; ++i) {
      cuda_->IsDone(looked).status().IgnoreError();
    }
    const MemoryUsage usage = device_->memory().usage();
    return cuda_->allocated_bytes() == 0 && usage.free_bytes() == usage.limit_bytes;
  }

  static void CopyOut(const HostBuffer& d, PlaneBytes* plane) {
    std::uint64_t offset = 0;
    for (const HostPiece& piece : d) {
      ASSERT_LE(offset + piece.size_bytes, plane->size());
      std::memcpy(plane->data() + offset, piece.data, piece.size_bytes);
      offset += piece.size_bytes;
    }
    EXPECT_EQ(offset, plane->size());
  }

  static Registry MakeRegistry() {
    std::vector<std::unique_ptr<const Kernel>> kernels;
    kernels.push_back(std::make_unique<ReferenceKernel>());
    return Registry(std::move(kernels));
  }

  const Registry registry_ = MakeRegistry();
  std::uint64_t pinned_bytes_ = 64 * kMiB;  // of devices started from then on
  FakeClock clock_;
  std::shared_ptr<FakeCuda> cuda_;
  std::vector<std::string> lost_;
  std::unique_ptr<CudaDevice> device_;
};

}  // namespace gemmd::testing
