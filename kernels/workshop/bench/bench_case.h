// The cases to measure: shapes, types and layouts, from the command line or from tables. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cublaslt/cublaslt_call.h"
#include "kernels/problem.h"

namespace gemmd::bench {

struct Shape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

bool operator==(const Shape& x, const Shape& y);

// "4096x4096x4096"
std::string ToString(const Shape& shape);

// A list of MxNxK and of tables' names: "ladder" (4096 and 8192 cubed, 1023x4095x4097), "hopper"
// (squares of 512 to 16384, long and short K, ragged ones), "decode" (M of 1 to 64 on 8192x8192).
// INVALID_ARGUMENT names the item.
absl::StatusOr<std::vector<Shape>> ParseShapes(absl::string_view list);

// Element types and scales of a product, and which of the vendor's arithmetics is its rival.
struct Types {
  // "f16", "f16_f16" (sums in f16), "bf16_f32" (f32 output), "mxfp8" (e4m3 with an E8M0 scale for
  // each 32 of K, in tiles of 128 x 4), "fp8_blocks" (f32 scales of 1 x 128 by 128 x 128), ...
  const char* name;
  DataType a;
  DataType b;
  DataType d;
  DataType accumulate;
  cublaslt::Arithmetic rival;
  Scaling a_scaling = Scaling::kNone;
  Scaling b_scaling = Scaling::kNone;
};

// INVALID_ARGUMENT lists the names there are.
absl::StatusOr<std::vector<Types>> ParseTypes(absl::string_view list);

// The transpositions of A and B, named as BLAS names them for row-major matrices.
struct Layout {
  bool transpose_a = false;
  bool transpose_b = false;
};

// "NN", "NT", "TN", "TT"
std::string ToString(const Layout& layout);
absl::StatusOr<std::vector<Layout>> ParseLayouts(absl::string_view list);

struct Case {
  Shape shape;
  Types types;
  Layout layout;
  // Lines of every plane are as long as devices make them (kernels/padded_line.h); else as long
  // as their elements.
  bool is_padded = true;
};

// Returns a problem of class fast without an epilogue. N and K of 8-bit types without scales are
// rounded up to 16 where padded, as a device pads them.
Problem MakeProblem(const Case& c);

// Bytes of an operand's plane of scales, those that pad tiles included; 0 where it has none.
std::uint64_t ScaleBytes(const Scaling& scaling, std::int64_t lines, std::int64_t k);

}  // namespace gemmd::bench
