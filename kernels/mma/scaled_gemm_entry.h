// The common part of registry entries of block-scaled products on tensor cores: 8-bit or 4-bit
// floats with a scale for each block of K, K-major, in 16-byte strides, to f32 without an epilogue.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/kernel.h"
#include "kernels/mma/half_gemm_entry.h"

namespace gemmd::mma {

// States the operands that such a kernel takes, and the name of its arithmetic.
struct ScaledGemmForm {
  DataType types[2];             // of A and B, in any combination; of 4 bits alone, the same twice
  Scaling scaling;               // of both
  std::int64_t stride_elements;  // in 16 bytes
  bool has_even_k;               // K is a whole number of bytes
  const char* numerics;          // of the id, which the types of A and B follow
};

// e4m3 and e5m2 with E8M0 scales of 32 of K in tiles of 128 x 4.
ScaledGemmForm Mxfp8Form(const char* numerics);
// e2m1 with the same scales.
ScaledGemmForm Mxfp4Form(const char* numerics);
// e2m1 with E4M3 scales of 16 of K, in such tiles, and an f32 of the operand.
ScaledGemmForm Nvfp4Form(const char* numerics);

class ScaledGemmEntry : public HalfGemmEntry {
 public:
  ScaledGemmEntry(const HalfGemmTraits& traits, const char* architecture,
                  const ScaledGemmForm& form, HalfGemmLaunch cuda, HalfGemmLaunch emulated);

  std::string Rejection(const Problem& problem) const override;
  std::string NumericsId(const Problem& problem) const override;

 private:
  const HalfGemmTraits values_;
  const ScaledGemmForm form_;
};

}  // namespace gemmd::mma
