// Random products of quantized operands, and what they should be.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/quant/quantize.h"
#include "kernels/kernel.h"
#include "tests/testing/products/matrices.h"

namespace gemmd::testing {

// An operand's planes, and how its codes lie.
struct QuantizedOperand {
  MatrixLayout layout;
  bool transpose = false;
  Scaling scaling;
  std::vector<std::uint8_t> codes;
  QuantizedMatrix quantized;  // whose scales, zero points, offsets and tensor scale it has
};

class Draws {
 public:
  explicit Draws(std::uint32_t seed) : random_(seed) {}

  std::int64_t Below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  double Normal() { return std::normal_distribution<double>()(random_); }

  // The limits on operands that are drawn.
  struct Limits {
    bool is_tight = false;        // no padding between lines
    bool is_on_the_wire = false;  // scales in no order that a client cannot send
    bool is_k_major = false;      // lines contiguous in memory
    bool is_untiled = false;      // scales along K or along lines
  };
  // Lines of K elements, of a quantized format or of a real type without scales. Scales have either
  // sign where they may. The plane has either order, lies either way, and may have padding between
  // its lines.
  QuantizedOperand Lines(const QuantFormat& format, std::int64_t lines, std::int64_t k, bool is_a,
                         const Limits& limits);
  QuantizedOperand Lines(const QuantFormat& format, std::int64_t lines, std::int64_t k, bool is_a) {
    return Lines(format, lines, k, is_a, Limits());
  }

 private:
  std::mt19937_64 random_;
};

// A product of two operands with its epilogue's planes.
struct QuantizedProduct {
  Problem problem;
  QuantizedOperand a;
  QuantizedOperand b;
  PlaneBytes c;
  PlaneBytes bias;
  PlaneBytes d;

  Arguments arguments();
};

// D is poisoned, there is no epilogue.
QuantizedProduct MakeQuantizedProduct(QuantizedOperand a, QuantizedOperand b, std::int64_t m,
                                      std::int64_t n, std::int64_t k, DataType accumulate,
                                      DataType output);

// Draws a product of fp8 operands with scales of blocks of 128 as cublaslt/fp8_blocks takes them,
// with any epilogue but an activation.
QuantizedProduct DrawBlockScaledProduct(Draws* draws, std::uint32_t seed);

// Empty where every element of D is within the bound of the kernel of that name
// (kernels/cpu/quantized_gemm.h, kernels/dequantize/dequantized_gemm.h,
// kernels/cublaslt/cublaslt_registry.h), else the first that is not.
std::string CheckQuantizedProduct(QuantizedProduct* product, const std::string& kernel);

// The type of sums that a server takes for such operands unasked.
DataType UsualSum(const QuantFormat& a, const QuantFormat& b);

// Draws a format to multiply another with: any format, or 32 and 16 bit floats.
QuantFormat Partner(Draws* draws);

}  // namespace gemmd::testing
