// The two compilations of the epilogue, as functions.
#pragma once

#include "absl/status/status.h"
#include "kernels/epilogue/epilogue.h"

namespace gemmd::epilogue {

// UNIMPLEMENTED: built without CUDA.
absl::Status CudaEpilogue(const Problem& problem, const Product& product,
                          const Arguments& arguments, const LaunchTarget& target);

absl::Status EmulatedEpilogue(const Problem& problem, const Product& product,
                              const Arguments& arguments, const LaunchTarget& target);

}  // namespace gemmd::epilogue
