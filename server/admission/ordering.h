// An operand that is put in the order of the other one's K (base/order/k_order.h).
#pragma once

#include "absl/status/statusor.h"
#include "base/order/k_order.h"
#include "kernels/gemm.h"
#include "server/admission/matmul_call.h"

namespace gemmd {

// The order of a resident operand, and the operand that a product wants in it.
struct Ordering {
  KOrder order;                           // null: nothing
  OperandName operand = OperandName::kA;  // the other one, which is put in it

  WorkPlane plane() const { return operand == OperandName::kA ? WorkPlane::kA : WorkPlane::kB; }
};

// INVALID_ARGUMENT, or UNIMPLEMENTED: both operands have an order, an operand with one is not
// resident, the order is not of K, or the other operand is resident or has blocks along K.
// REQUIRES: `problem` is what ValidateHeader() made of the call.
absl::StatusOr<Ordering> OrderingOf(const MatmulCall& call, const Problem& problem);

// `data` has the bytes of the operand's data. REQUIRES: there is an order.
void PutInOrder(const Ordering& ordering, const Problem& problem, char* data);

}  // namespace gemmd
