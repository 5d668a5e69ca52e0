// Seeded random matrices, and problems over shapes, layouts, types and epilogues.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd::testing {

enum class Distribution {
  kNormal,     // mean 0, deviation 1
  kUniform,    // 0 to 1: sums grow, nothing cancels
  kWideScale,  // normal times 2^-6 .. 2^6
};

// Host memory of one plane, poisoned where no element lies.
using PlaneBytes = std::vector<char>;

// Integers are drawn from the whole range of int8 (small values for int32).
PlaneBytes RandomPlane(const MatrixLayout& layout, Distribution distribution, std::uint32_t seed);

// Every byte 0xA5: what outputs hold before a kernel runs.
PlaneBytes PoisonedPlane(const MatrixLayout& layout);

// The operands of one problem and room for its result.
struct Operands {
  Operands(const Problem& problem, Distribution distribution, std::uint32_t seed);

  // Addresses of the planes; workspace is null.
  Arguments arguments();

  PlaneBytes a;
  PlaneBytes b;
  PlaneBytes c;
  PlaneBytes bias;
  std::vector<float> a_scales;  // as many as problem.a_scaling says
  std::vector<float> b_scales;
  PlaneBytes d;
};

// Memory as a device gives it to a launch: aligned to 256 bytes.
class Workspace {
 public:
  explicit Workspace(std::uint64_t bytes)
      : memory_(std::aligned_alloc(256, (bytes + 256) / 256 * 256), std::free) {}

  void* data() const { return memory_.get(); }

 private:
  const std::unique_ptr<void, void (*)(void*)> memory_;
};

// Small problems of one operand type: edges of 64 x 512 units, both orders of every
// operand, transposes, padded leading dimensions, every activation, alpha, beta, bias;
// for 8-bit types every pair of scalings. B's type is `type` unless given.
std::vector<Problem> SmallProblems(DataType type, DataType output_type);
std::vector<Problem> SmallProblems(DataType type, DataType type_of_b, DataType output_type);

// Compares d with the binary64 reference. Empty if each element is within
// (k + 4) * epsilon * magnitude + half a unit in the last place of the output (twice
// that through an activation, whose slope is below 1.13) and `slack` times magnitude; else
// the first that is not.
std::string CompareWithReference(const Problem& problem, const Operands& operands,
                                 double slack = 0);

}  // namespace gemmd::testing
