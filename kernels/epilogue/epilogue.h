// The epilogue of a product that lies in memory: scales, alpha, beta * C, bias, activation and the
// rounding to D's type in one pass. A kernel that cannot fuse these writes its product into its
// workspace and queues this behind itself.
//
// Arithmetic, as on the CPU (cpu/panel_gemm.h): binary64 for f64 and int32 products, else
// binary32; ((product * a scale) * b scale), times alpha, plus beta * C, plus bias, each
// operation rounded and none fused; then the activation; then one rounding to D's type.
// The activations' exp and tanh are the platform's, so their last bits may differ between
// a CPU and a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd {

// An m x n product in D's order.
struct Product {
  DataType type = DataType::kF32;
  const void* data = nullptr;
  std::int64_t leading_dimension = 0;  // elements
};

// Why there is no epilogue from a product of one type to D of the other, in one line;
// empty if there is: f64, f32, f16 and int32 to f32, f16 and bf16; f64 to f64. From f64 to one of
// fewer bits the value is rounded to f32 on the way.
std::string EpilogueRejection(DataType product_type, DataType output_type);

// Reads c, bias and the scales of `arguments`, as far as the problem has them, and writes
// d. Queues on target.stream, or runs to its end in *target.emulator. Thread-safe.
// INVALID_ARGUMENT: EpilogueRejection() says why. UNIMPLEMENTED: target.stream without
// CUDA in this build. INTERNAL: the launch failed.
absl::Status LaunchEpilogue(const Problem& problem, const Product& product,
                            const Arguments& arguments, const LaunchTarget& target);

}  // namespace gemmd
