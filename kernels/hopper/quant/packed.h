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
//   codes         of 4 bits 1024 bytes, of 8 bits 2048: a lane's words, one or two a step, in
//                 ascending steps; word x at x / 4 * 512 + lane * 16 + x % 4 * 4
//   scales        for each `pair` those of line `pair`, then those of `pair` + 8: of either as many
//                 as are for 128 of K, in ascending K
//   zero points   likewise, each a byte
//
// Scales for all of K have one piece for each strip, and so have their zero points: their plane is
// that of one group. One scale for several lines is repeated for each. A byte of nvfp4's scales is
// 8 less than it was, modulo 256.
//
// A step's word has the eight codes of a lane's four registers of A's fragment
// (kernels/ptx/mma_sync.h), or one has the four codes of registers 0 and 1, and one those of 2 and
// 3. The code of register j, half h, is of line lane / 4 + j % 2 * 8 of the strip, and of the
// step's K element lane % 4 * 2 + j / 2 * 8 + h. CodeBit() says where its bits are: an integer's
// are together, those of E2M1 and E4M3 lie so that few shifts bring all to their places in bf16.
// Codes and zero points of int4 are those of uint4, 8 more than they stand for, and those of uint8
// are those of int8, 128 less. Padding, of N and K to 128, is zeros: its lines are not stored, and
// where K ends A is zero.
//
// nvfp4's scale of the tensor is no plane of these: it is one f32, and stays as it was sent.
#pragma once

#include <cstdint>

namespace gemmd::hopper::quant {

inline constexpr int kGroupK = 128;
inline constexpr int kStripLines = 16;  // a fragment's
inline constexpr int kChunkStrips = 4;
inline constexpr int kChunkLines = kStripLines * kChunkStrips;
inline constexpr int kStepK = 16;
inline constexpr int kSteps = kGroupK / kStepK;
// A lies in shared memory in slabs, whose lines are 128 bytes.
inline constexpr int kSlabK = 64;
inline constexpr int kGroupSlabs = kGroupK / kSlabK;

// The type of a code.
enum class Code : std::uint8_t {
  kInt4,  // int4 and uint4
  kE2m1,
  kInt8,  // int8 and uint8
  kE4m3,
};

// The codes of B with their scales.
enum class CodeFormat : std::uint8_t {
  kInt4,     // int4 and uint4: f16 or bf16 scales of 128 of K
  kInt4G64,  // of 64
  kInt4G32,  // of 32
  kMxfp4,    // E2M1: E8M0 scales of 32 of K
  kNvfp4,    // E2M1: E4M3 scales of 16 of K, and one f32 for all
  kInt8,     // int8, and uint8 with zero points: f32 scales of 128 of K, or of all of it
  kInt8G64,  // of 64
  kInt8G32,  // of 32
  kE4m3,     // E4M3: f32 scales of 128 of K, or of all of it
};
inline constexpr CodeFormat kCodeFormats[] = {
    CodeFormat::kInt4,    CodeFormat::kInt4G64, CodeFormat::kInt4G32,
    CodeFormat::kMxfp4,   CodeFormat::kNvfp4,   CodeFormat::kInt8,
    CodeFormat::kInt8G64, CodeFormat::kInt8G32, CodeFormat::kE4m3};

struct FormatTraits {
  Code code;
  int scales;      // of a line's group of 128
  int scale_size;  // bytes
};
constexpr FormatTraits TraitsOf(CodeFormat format) {
  switch (format) {
    case CodeFormat::kInt4:
      return {Code::kInt4, 1, 2};
    case CodeFormat::kInt4G64:
      return {Code::kInt4, 2, 2};
    case CodeFormat::kInt4G32:
      return {Code::kInt4, 4, 2};
    case CodeFormat::kMxfp4:
      return {Code::kE2m1, 4, 1};
    case CodeFormat::kNvfp4:
      return {Code::kE2m1, 8, 1};
    case CodeFormat::kInt8:
      return {Code::kInt8, 1, 4};
    case CodeFormat::kInt8G64:
      return {Code::kInt8, 2, 4};
    case CodeFormat::kInt8G32:
      return {Code::kInt8, 4, 4};
    case CodeFormat::kE4m3:
      break;
  }
  return {Code::kE4m3, 1, 4};
}
constexpr Code CodeOf(CodeFormat format) { return TraitsOf(format).code; }

// Returns whether sums run on from one group of K to the next.
constexpr bool IsChain(CodeFormat format) {
  return format == CodeFormat::kMxfp4 || format == CodeFormat::kNvfp4;
}
constexpr int CodeBits(Code code) { return code == Code::kInt4 || code == Code::kE2m1 ? 4 : 8; }
constexpr int CodeBits(CodeFormat format) { return CodeBits(CodeOf(format)); }
// The words of a lane's step.
constexpr int StepWords(Code code) { return CodeBits(code) / 4; }

// Scales of a line's group, and the K that one is for.
constexpr int ScalesOf(CodeFormat format) { return TraitsOf(format).scales; }
constexpr int ScaleK(CodeFormat format) { return kGroupK / ScalesOf(format); }
// Returns whether a group's sum is made of several, each of what has a scale of its own.
constexpr bool HasParts(CodeFormat format) { return ScalesOf(format) > 1 && !IsChain(format); }

// The bytes of a unit.
constexpr int CodeBytes(Code code) { return kStripLines * kGroupK * CodeBits(code) / 8; }
constexpr int ScaleBytes(CodeFormat format) {
  return kStripLines * ScalesOf(format) * TraitsOf(format).scale_size;
}
constexpr int ZeroBytes(CodeFormat format) { return kStripLines * ScalesOf(format); }

// To be added to a byte of nvfp4's scales, modulo 256: then all positive normal numbers of E4M3 are
// below 0x77, and so is padding.
inline constexpr std::uint32_t kNvfp4ScaleBias = 0xf8;

// The rotation of a word to the left that brings bit `bit` of register j's codes to its place in
// bf16: the sign to 15, the exponent's two bits to 8 and 7, the fraction's to 6.
constexpr int E2m1Rotation(int j, int bit) {
  constexpr int kRotations[] = {0, 4, 10, 14};
  return j == 3 && bit == 0 ? 6 : kRotations[j];
}
// The place in its word of bit `bit` (0 the lowest) of the code of register j, half `half`.
constexpr int E2m1Bit(int j, int half, int bit) {
  const int in_bf16 = bit == 3 ? 15 : 6 + bit;
  return (in_bf16 + 16 * half + 32 - E2m1Rotation(j, bit)) % 32;
}
// Even registers' bits are at their places in bf16: the sign at 15, the rest from 4 on. Those of
// odd ones fill the gaps: the sign and the lowest four have to move up by 4, the upper three down
// by 4.
constexpr int E4m3Bit(int j, int half, int bit) {
  const int in_bf16 = bit == 7 ? 15 : 4 + bit;
  if (j % 2 == 0) return 16 * half + in_bf16;
  return 16 * half + (bit == 7 || bit < 4 ? in_bf16 - 4 : in_bf16 + 4);
}
constexpr int CodeBit(Code code, int j, int half, int bit) {
  switch (code) {
    case Code::kE2m1:
      return E2m1Bit(j, half, bit);
    case Code::kInt8:
      return 16 * half + 8 * (j % 2) + bit;
    case Code::kE4m3:
      return E4m3Bit(j, half, bit);
    case Code::kInt4:
      break;
  }
  return 16 * half + 4 * j + bit;
}
// For device code, which may not call them.
template <int kRegister, int kBit>
inline constexpr int kE2m1Rotation = E2m1Rotation(kRegister, kBit);
template <Code kCode, int kRegister, int kHalf, int kBit>
inline constexpr int kCodeBit = CodeBit(kCode, kRegister, kHalf, kBit);

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
