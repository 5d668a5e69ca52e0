// Resident operands that are stacks: matrices of one shape, one behind the other. Pure functions.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/gemm.h"
#include "server/admission/matmul_call.h"
#include "server/device/device.h"
#include "server/device/resident_part.h"
#include "server/store/operand_form.h"

namespace gemmd {

// One matrix of a stack.
struct MatrixOfStack {
  OperandForm form;
  StackSpec stack;  // without the products: first and each are 0
};

// Finds the matrices of a resident operand whose data are `said`. INVALID_ARGUMENT: the operand's
// lines, or its blocks, do not end where matrices of that shape do; or a plane that goes with the
// data does not lie as they do. `k_is_columns`: of the data as they lie.
absl::StatusOr<MatrixOfStack> FindMatrix(absl::string_view field, const OperandForm& whole,
                                         const PlaneSpec& said, bool k_is_columns);

// Tells which of its matrices the products take. `stride`: the batch's, 0 without one.
// INVALID_ARGUMENT: the stack has no such matrix, or the stride is not a multiple of its matrices.
absl::Status ChooseMatrices(OperandName operand, std::uint64_t first, std::uint64_t stride,
                            std::uint64_t products, const MatrixLayout& one, StackSpec* stack);

// A problem whose operand is all of the stack, as the device gets it to keep it. Says nothing of a
// product.
Problem WithStack(const Problem& problem, OperandName operand, const StackSpec& stack);

// The plane of the problem that says how an operand's plane is to lie on a device. A stack of
// biases lies there as a C of its lines would.
WorkPlane LandedAs(WorkPlane plane, bool is_stack);

// Returns whether a stack of such B may be packed.
bool MayPack(const Problem& problem, const StackSpec& stack);

// Where the first product's plane begins in the stack's, and the step to the next one's, in the
// host's memory. REQUIRES: the operand has the plane.
ResidentPart::Place PlaceInHost(const Problem& problem, const StackSpec& stack, WorkPlane plane,
                                PlaneName name);
// As that, in the device's own memory. FAILED_PRECONDITION: there matrices would begin where
// kernels do not take them.
absl::StatusOr<ResidentPart::Place> PlaceOnDevice(const Device& device, const Problem& problem,
                                                  const StackSpec& stack,
                                                  const OperandPlane& plane);

}  // namespace gemmd
