// Works that share launches on a GPU, over one resident B.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "server/device/rows.h"
#include "tests/server/device/gpu/served_gpu.h"

namespace gemmd::testing {

// B of the problem, resident.
inline std::shared_ptr<const ResidentOperand> StoreB(ServedGpu* gpu, const Problem& problem,
                                                     const Operands& operands) {
  return Require(gpu->device->Store(problem, WorkPlane::kB, operands.b.data()), "resident B");
}

// A work over that B with its own rows, in memory as the device gives it to requests.
inline DeviceWork RowsWork(ServedGpu* gpu, const Problem& problem, const void* a,
                           const std::shared_ptr<const ResidentOperand>& b,
                           std::vector<HostPiece>* kept) {
  DeviceWork work;
  work.problem = problem;
  work.plan = Require(
      Select(BuiltinRegistry(), gpu->device->Landed(problem), gpu->device->traits()), "plan");
  kept->push_back(Require(gpu->device->AllocateOperand(problem.a.size_bytes()), "operand"));
  std::memcpy(kept->back().data, a, problem.a.size_bytes());
  work.buffers[WorkPlane::kA] = kept->back().data;
  work.buffers.d = Require(gpu->device->AllocateResult(problem.d), "result");
  work.resident[WorkPlane::kB] = b;
  work.weights_id = 1;
  return work;
}

inline DeviceLaunch Join(ServedGpu* gpu, std::vector<DeviceWork> works) {
  Plan plan = Require(
      Select(BuiltinRegistry(), gpu->device->Landed(JoinedRows(works)), gpu->device->traits()),
      "plan of the batch");
  return DeviceLaunch::Rows(std::move(works), std::move(plan));
}

}  // namespace gemmd::testing
