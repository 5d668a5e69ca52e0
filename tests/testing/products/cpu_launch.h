// Computes a product as the CPU device would, on the calling thread.
#pragma once

#include "absl/status/status.h"
#include "kernels/gemm.h"
#include "tests/testing/products/matrices.h"

namespace gemmd::testing {

class InlineExecutor final : public ParallelExecutor {
 public:
  void Run(std::int64_t count, absl::FunctionRef<void(int, std::int64_t)> body) override {
    for (std::int64_t i = 0; i < count; ++i) body(0, i);
  }
  int workers() const override { return 1; }
};

// Launches what selection takes; the workspace is not the caller's. The first error of either.
inline absl::Status LaunchOnCpu(const Problem& problem, Arguments arguments) {
  DeviceTraits cpu;
  cpu.name = "cpu";
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, cpu);
  if (!plan.ok()) return plan.status();
  InlineExecutor executor;
  const Workspace workspace(plan->workspace_bytes);
  arguments.workspace = workspace.data();
  LaunchTarget target;
  target.executor = &executor;
  return plan->kernel->Launch(problem, plan->config, arguments, target);
}

}  // namespace gemmd::testing
