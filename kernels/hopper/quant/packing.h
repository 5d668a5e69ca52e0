// Weights as kernels of sm_90 want them in the device's memory: planes as they were sent are
// packed once, when they land, and unpacked where somebody wants them back.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd {

// The planes of a packed B. Each is packed alone, into as many bytes as it has, but for N and K
// that are no multiples of 128, and for scales of several lines, which are repeated for each.
enum class WeightPlane : std::uint8_t { kCodes, kScales, kZeroPoints, kOffsets };

// Why kernels of sm_90 do not take a problem with its B packed, in one line; empty if they do, as
// soon as A lies along K. f16, bf16 or f32 by B of
//   int4, uint4           with f16 or bf16 scales of 32, 64 or 128 along K for each line
//   uint4                 with offsets of the same, or f32 scales and offsets of 32
//   uint8                 with f32 scales and offsets of 32
//   nf4, bnb_fp4          with f32 scales of 64
//   iq4_nl                with f16, bf16 or f32 scales of 32
//   int8, uint8           with f32 scales of the same, of 128 x 128, for each line or for all
//   fp8_e4m3, fp8_e5m2    with f32 scales of 128 along K or those others, or e8m0 ones of 32
//   fp6_e3m2, fp6_e2m3    with e8m0 scales of 32
// and bf16 or f32 by mxfp4 or nvfp4. Scales lie in either order; integers have zero points or have
// none. K is a multiple of 64; at most four times as many bytes when N and K are padded to 128, so
// that little does not become much; sums of f32.
std::string PackingRejection(const Problem& problem);

// The following REQUIRE that to be empty. They read B, N and K of the problem.

// Bytes of the packed plane, and how many of them belong together: a piece.
std::uint64_t PackedBytes(const Problem& problem, WeightPlane plane);
std::uint64_t PackedPieceBytes(const Problem& problem, WeightPlane plane);

// Packed lines lie together in blocks of as many: a part of N begins at a multiple.
inline constexpr std::int64_t kPackedLines = 128;
// Bytes of the packed plane before that line's.
std::uint64_t PackedOffset(const Problem& problem, WeightPlane plane, std::int64_t line);

// Queues on target.stream, or runs to its end in *target.emulator: from B's plane as the problem
// has it, in the device's memory, to PackedBytes() at a multiple of 128. Thread-safe.
// INVALID_ARGUMENT: `packed` lies elsewhere. UNIMPLEMENTED: target.stream without CUDA in this
// build. INTERNAL: the launch failed.
absl::Status PackPlane(const Problem& problem, WeightPlane plane, const void* sent, void* packed,
                       const LaunchTarget& target);

// Writes what pieces [first, first + count) hold to its places in the plane as it was sent, all in
// the host's memory. `pieces`: the first of them.
void UnpackPieces(const Problem& problem, WeightPlane plane, std::int64_t first, std::int64_t count,
                  const void* pieces, void* sent);

}  // namespace gemmd
