// Runs of f32 products on this machine's GPU, for programs that need one.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tests/kernels/hopper/common/f32_planes.h"
#include "tests/kernels/mma/gpu_matrix.h"

namespace gemmd::testing {

// A run's planes on the GPU.
class OnGpu {
 public:
  explicit OnGpu(F32Run& run)
      : a_(run.problem.a.size_bytes()),
        b_(run.problem.b.size_bytes()),
        c_(run.problem.c.size_bytes()),
        d_(run.problem.d.size_bytes()),
        bias_(run.bias.size() * 4) {
    a_.Put(run.a_plane.data());
    b_.Put(run.b_plane.data());
    c_.Put(run.c_plane.data());
    d_.Put(run.d_plane.data());
    bias_.Put(run.bias.data());
    arguments_.a = a_.data();
    arguments_.b = b_.data();
    arguments_.c = c_.data();
    arguments_.d = d_.data();
    arguments_.bias = bias_.data();
    arguments_.b_is_settled = run.b_is_settled;
  }

  // The run's problem or one of fewer rows, A's from `first_row` on.
  void Launch(const Problem& problem, const Kernel& kernel, const Config& config,
              std::int64_t first_row = 0) {
    const std::uint64_t bytes = kernel.WorkspaceBytes(problem, config) + 256;
    if (workspace_ == nullptr || workspace_->bytes() < bytes) {
      workspace_ = std::make_unique<GpuMatrix>(bytes);
    }
    Arguments arguments = arguments_;
    arguments.a = static_cast<const float*>(arguments_.a) + first_row * problem.a_row_stride();
    arguments.workspace = workspace_->data();
    const absl::Status status = kernel.Launch(problem, config, arguments, LaunchTarget());
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }

  void GetD(void* to) {
    CheckCuda(cudaDeviceSynchronize(), "launch");
    d_.Get(to);
  }

 private:
  GpuMatrix a_;
  GpuMatrix b_;
  GpuMatrix c_;
  GpuMatrix d_;
  GpuMatrix bias_;
  std::unique_ptr<GpuMatrix> workspace_;
  Arguments arguments_;
};

// Launches the run's problem on the GPU, and copies D back into its plane.
inline void LaunchOnGpu(F32Run* run, const Kernel& kernel, const Config& config) {
  OnGpu on_gpu(*run);
  on_gpu.Launch(run->problem, kernel, config);
  on_gpu.GetD(run->d_plane.data());
}

// Returns the milliseconds of a launch: the mean of five, after one that warms up.
inline double MsOnGpu(F32Run& run, const Kernel& kernel, const Config& config) {
  constexpr int kTimes = 5;
  OnGpu on_gpu(run);
  GpuTimer timer;
  on_gpu.Launch(run.problem, kernel, config);
  timer.Start();
  for (int i = 0; i < kTimes; ++i) on_gpu.Launch(run.problem, kernel, config);
  return timer.Stop() / kTimes;
}

}  // namespace gemmd::testing
