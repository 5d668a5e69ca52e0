// The planes that a work reads, and values by plane. A new plane is an enumerator here, its row in
// the operand's list, its cases in planes.cc, and its place in a panel (panel.cc).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "kernels/gemm.h"

namespace gemmd {

// The planes of one operand, as gemmd.v1.PlaneName.
enum class PlaneName : std::uint8_t { kData, kScales, kZeroPoints, kTensorScale, kOffsets };
inline constexpr std::array<PlaneName, 5> kPlaneNames = {
    PlaneName::kData, PlaneName::kScales, PlaneName::kZeroPoints, PlaneName::kTensorScale,
    PlaneName::kOffsets};
absl::string_view Name(PlaneName plane);

// Matrices come first, then planes of one line: bias, and what scales A and B.
enum class WorkPlane : std::uint8_t {
  kA,
  kB,
  kC,
  kBias,
  kAScales,
  kBScales,
  kAZeroPoints,
  kBZeroPoints,
  kATensorScale,
  kBTensorScale,
  kAOffsets,
  kBOffsets,  // the last: kWorkPlaneCount is made of it
};
inline constexpr std::size_t kWorkPlaneCount = static_cast<std::size_t>(WorkPlane::kBOffsets) + 1;

// Returns the planes from `first` to the last.
template <WorkPlane first>
constexpr auto PlanesFrom() {
  constexpr auto kFirst = static_cast<std::size_t>(first);
  std::array<WorkPlane, kWorkPlaneCount - kFirst> planes{};
  for (std::size_t i = 0; i < planes.size(); ++i) planes[i] = static_cast<WorkPlane>(kFirst + i);
  return planes;
}
inline constexpr auto kWorkPlanes = PlanesFrom<WorkPlane::kA>();
inline constexpr auto kVectorPlanes = PlanesFrom<WorkPlane::kBias>();    // those of one line
inline constexpr auto kScalePlanes = PlanesFrom<WorkPlane::kAScales>();  // what scales A and B

// The planes of A, and of B, in the order of kPlaneNames.
inline constexpr std::array<WorkPlane, 5> kPlanesOfA = {
    WorkPlane::kA, WorkPlane::kAScales, WorkPlane::kAZeroPoints, WorkPlane::kATensorScale,
    WorkPlane::kAOffsets};
inline constexpr std::array<WorkPlane, 5> kPlanesOfB = {
    WorkPlane::kB, WorkPlane::kBScales, WorkPlane::kBZeroPoints, WorkPlane::kBTensorScale,
    WorkPlane::kBOffsets};

// A value for each enumerator, at first T{}.
template <typename Plane, std::size_t count, typename T>
class ValuesByPlane {
 public:
  T& operator[](Plane plane) { return values_[static_cast<std::size_t>(plane)]; }
  const T& operator[](Plane plane) const { return values_[static_cast<std::size_t>(plane)]; }

 private:
  std::array<T, count> values_{};
};
template <typename T>
using Planes = ValuesByPlane<WorkPlane, kWorkPlaneCount, T>;
template <typename T>
using OperandPlanes = ValuesByPlane<PlaneName, kPlaneNames.size(), T>;

// Returns whether the problem has the plane.
bool HasPlane(const Problem& problem, WorkPlane plane);
// The plane as the problem has it. Bias and what scales A and B are planes of one line.
// REQUIRES: the problem has it.
MatrixLayout PlaneOf(const Problem& problem, WorkPlane plane);
// Returns a landed problem's plane as it lies where it stays on a device: where it is packed, a
// line for each piece. REQUIRES: the problem has it.
MatrixLayout ResidentPlaneOf(const Problem& landed, WorkPlane plane);
// Returns which plane of a packed B it is. Nothing: it is none, or the problem's B is not packed.
std::optional<WeightPlane> PackedPlaneOf(const Problem& problem, WorkPlane plane);
// 0 where the problem does not have it.
std::uint64_t PlaneBytes(const Problem& problem, WorkPlane plane);
// The bytes of all that scales both operands: what quantization adds.
std::uint64_t ScaleBytes(const Problem& problem);
// The bytes of all planes that the problem has, and of D.
std::uint64_t ProductBytes(const Problem& problem);

// A kernel's arguments with these addresses; all that is no plane is left as it is at first.
Arguments ArgumentsOf(const Planes<const void*>& planes);

}  // namespace gemmd
