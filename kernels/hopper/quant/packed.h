// Packed weights: how the planes of a quantized B lie in the device's memory for the kernels here.
// Pure functions of its shape, for host and device.
//
// The lines of W are the columns of op(B), N of them, K long. Lines go in strips of 16, K in groups
// of 128. A strip's group is a unit, and each plane has a piece of its own for it. Four strips are
// a chunk; the pieces of a chunk's group lie side by side, so that one copy fetches them, and
// groups follow each other in ascending K. So the piece of unit (strip, group) is number
//
//   (strip / 4 * groups + group) * 4 + strip % 4
//
//   codes         1024 bytes: at h * 512 + lane * 16 + w * 4 the word of step 4 h + w for a lane
//   scales        32 bytes: at pair * 4 the scales of lines `pair` and `pair` + 8, f16
//   zero points   16 bytes: at pair * 2 those of the same lines
//
// A word has the eight codes of a lane's four registers of A's fragment (kernels/ptx/mma_sync.h):
// that of register j, half h, is in the bits from 16 h + 4 j on: line lane / 4 + j % 2 * 8 of the
// strip, and of the step's K element lane % 4 * 2 + j / 2 * 8 + h. Codes and zero points of int4
// are those of uint4, 8 more than they stand for. Padding, of N and K to 128, is zeros:
// its lines are not stored, and where K ends A is zero.
#pragma once

#include <cstdint>

namespace gemmd::hopper::quant {

inline constexpr int kGroupK = 128;     // that a scale is for
inline constexpr int kStripLines = 16;  // a fragment's
inline constexpr int kChunkStrips = 4;
inline constexpr int kChunkLines = kStripLines * kChunkStrips;
inline constexpr int kStepK = 16;
inline constexpr int kSteps = kGroupK / kStepK;
// Of A, in shared memory: lines of 128 bytes.
inline constexpr int kSlabK = 64;
inline constexpr int kGroupSlabs = kGroupK / kSlabK;

// Of a unit.
inline constexpr int kCodeBytes = kStripLines * kGroupK / 2;
inline constexpr int kScaleBytes = kStripLines * 2;
inline constexpr int kZeroBytes = kStripLines;

// The number that is taken from a stored code: one for all of them, or one for each scale.
enum class ZeroKind : std::uint8_t { kNone, kEight, kPlane };

constexpr std::int64_t GroupsOf(std::int64_t k) { return (k + kGroupK - 1) / kGroupK; }
// Always two or more: the kernels' blocks have as many.
constexpr std::int64_t ChunksOf(std::int64_t n) {
  return (n + 2 * kChunkLines - 1) / (2 * kChunkLines) * 2;
}
constexpr std::int64_t UnitsOf(std::int64_t n, std::int64_t k) {
  return ChunksOf(n) * GroupsOf(k) * kChunkStrips;
}

}  // namespace gemmd::hopper::quant
