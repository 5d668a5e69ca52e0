#include "server/scheduling/batch_key.h"

namespace gemmd {
namespace {

// Tells the plane from others, wherever it lies.
const void* AddressOf(const std::shared_ptr<const ResidentOperand>& resident, const void* host) {
  return resident != nullptr ? resident->data() : host;
}

}  // namespace

BatchKey::BatchKey(BatchForm form, const DeviceWork& work) : form_(form) {
  const Problem& problem = work.problem;
  // The plan's class is part of the key: a plan of class fast shares no launch with a
  // batch-invariant one.
  const Determinism determinism = work.plan.kernel->traits().determinism;
  if (form == BatchForm::kGroup) {
    std::get<0>(fields_) = determinism;
    return;
  }
  fields_ = {determinism,
             work.weights_id,
             work.plan.kernel,
             problem.a.type,
             problem.d.type,
             problem.accumulate,
             problem.n,
             problem.k,
             problem.transpose_b,
             problem.b.order == Order::kRowMajor,
             problem.a_scaling,
             problem.b_scaling,
             problem.epilogue.activation,
             problem.epilogue.alpha,
             AddressOf(work.resident[WorkPlane::kBias], work.buffers[WorkPlane::kBias]),
             AddressOf(work.resident[WorkPlane::kBScales], work.buffers[WorkPlane::kBScales])};
}

}  // namespace gemmd
