// The call of a vendor's matrix product that a problem needs: a value, made without a GPU.
//
// BLAS libraries are column-major: they compute D' = op(A') op(B') with D' m x n. A
// column-major D is asked for as it is. A row-major D is D'^T, so the operands change
// places: A' is B and B' is A, and m and n change places with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/kernel.h"

namespace gemmd::cublaslt {

// The arithmetic of a registry entry.
enum class Arithmetic : std::uint8_t {
  kF64,
  kF32,
  kTf32,
  kF16,
  kBf16,
  kInt8,
  kFp8Promoted,  // partial sums move to f32 registers every few steps of K
  kFp8Fast,      // sums stay in the tensor core's own 13 fraction bits
  kFp8Blocks,    // sums of each block of 128 along K are scaled and added in f32
};

// The steps that the library does after the product.
enum class FusedEpilogue : std::uint8_t {
  kNone,
  kBias,
  kRelu,
  kReluBias,
  kGelu,
  kGeluBias,
};

// Everything but addresses that the library's choice of algorithms may depend on. alpha and beta
// are 1 and 0 where `is_product_only`, else the problem's.
struct CublasLtCall {
  Arithmetic arithmetic = Arithmetic::kF32;
  DataType accumulate = DataType::kF32;
  DataType a_type = DataType::kF32;  // of A', and so on
  DataType b_type = DataType::kF32;
  DataType d_type = DataType::kF32;
  bool transpose_a = false;
  bool transpose_b = false;
  bool swaps_operands = false;
  bool has_c = false;
  bool is_product_only = false;  // D' is a product in the workspace; our epilogue follows
  Scaling a_scaling = Scaling::kNone;
  Scaling b_scaling = Scaling::kNone;
  FusedEpilogue epilogue = FusedEpilogue::kNone;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
  std::int64_t ldd = 0;
};

bool operator==(const CublasLtCall& x, const CublasLtCall& y);

template <typename H>
H AbslHashValue(H h, const CublasLtCall& c) {
  return H::combine(std::move(h), c.arithmetic, c.accumulate, c.a_type, c.b_type, c.d_type,
                    c.transpose_a, c.transpose_b, c.swaps_operands, c.has_c, c.is_product_only,
                    c.a_scaling, c.b_scaling, c.epilogue, c.m, c.n, c.k, c.lda, c.ldb, c.ldc,
                    c.ldd);
}

// Why no call serves the problem with this arithmetic, in one line; empty if one does.
std::string MatmulRejection(Arithmetic arithmetic, const Problem& problem);

// The following REQUIRE MatmulRejection() to be empty.

// All of the problem in one call, by what the library's documentation promises; nothing
// where it has no such epilogue, output type or scaling.
std::optional<CublasLtCall> FusedCall(Arithmetic arithmetic, const Problem& problem);

// The product into the workspace, in D's order, without scales but those of blocks; nothing where
// no epilogue of ours takes it to D's type.
std::optional<CublasLtCall> ProductCall(Arithmetic arithmetic, const Problem& problem);

// Bytes of D' of a ProductCall(): a multiple of 256.
std::uint64_t ProductBytes(const CublasLtCall& call);

}  // namespace gemmd::cublaslt
