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
//   codes         of 4 bits 1024 bytes, of 6 bits 1536, of 8 bits 2048: a lane's words, two, three
//                 or four for two steps, in ascending steps; word x at
//                 x / 4 * 512 + lane * 16 + x % 4 * 4
//   scales        for each `pair` those of line `pair`, then those of `pair` + 8: of either as many
//                 as are for 128 of K, in ascending K
//   zero points   likewise, each a byte
//   offsets       as scales, of their type
//
// Scales for all of K have one piece for each strip, and so have their zero points: their plane is
// that of one group. Offsets stand where zero points would: no format has both. One scale for
// several lines is repeated for each. A byte of nvfp4's scales is 8 less than it was, modulo 256.
//
// The code of register j, half h, of A's fragment (kernels/ptx/mma_sync.h) is of line
// lane / 4 + j % 2 * 8 of the strip, and of the step's K element lane % 4 * 2 + j / 2 * 8 + h. A
// step of 4 bits is a word; a step of 8 bits is two, of registers 0 and 1 and of 2 and 3. Two steps
// of 6 bits are a word each of their codes' lowest four bits, and a third of the upper two of both.
// CodePlace() says where a code's bits are: an integer's are together, those of floats lie so that
// few rotations bring all to their places in bf16, and of codes in a table both halves are a byte.
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
  kInt4,   // int4 and uint4
  kTable,  // a place in a table of 16 numbers: nf4, bnb_fp4 and iq4_nl
  kE2m1,
  kInt8,  // int8 and uint8
  kE4m3,
  kE5m2,
  kE3m2,
  kE2m3,
};

// The codes of B with their scales.
enum class CodeFormat : std::uint8_t {
  kInt4,                 // int4 and uint4: f16 or bf16 scales of 128 of K
  kInt4G64,              // of 64
  kInt4G32,              // of 32
  kUint4Offset,          // uint4: f16 or bf16 scales and offsets of 128 of K
  kUint4G64Offset,       // of 64
  kUint4G32Offset,       // of 32
  kUint4G32FloatOffset,  // f32 ones of 32
  kTableG64Float,        // nf4 and bnb_fp4: f32 scales of 64 of K
  kIq4NlG32,             // iq4_nl: f16 or bf16 scales of 32
  kIq4NlG32Float,        // f32 ones of 32
  kMxfp4,                // E2M1: E8M0 scales of 32 of K
  kNvfp4,                // E2M1: E4M3 scales of 16 of K, and one f32 for all
  kInt8,                 // int8 and uint8: f32 scales of 128 of K, or of all of it
  kInt8G64,              // of 64
  kInt8G32,              // of 32
  kUint8G32Offset,       // uint8: f32 scales and offsets of 32 of K
  kE4m3,                 // f32 scales of 128 of K, or of all of it
  kE5m2,                 // likewise
  kMxE4m3,               // E8M0 scales of 32 of K: mxfp8 and mxfp6
  kMxE5m2,
  kMxE3m2,
  kMxE2m3,
};
inline constexpr CodeFormat kCodeFormats[] = {CodeFormat::kInt4,
                                              CodeFormat::kInt4G64,
                                              CodeFormat::kInt4G32,
                                              CodeFormat::kUint4Offset,
                                              CodeFormat::kUint4G64Offset,
                                              CodeFormat::kUint4G32Offset,
                                              CodeFormat::kUint4G32FloatOffset,
                                              CodeFormat::kTableG64Float,
                                              CodeFormat::kIq4NlG32,
                                              CodeFormat::kIq4NlG32Float,
                                              CodeFormat::kMxfp4,
                                              CodeFormat::kNvfp4,
                                              CodeFormat::kInt8,
                                              CodeFormat::kInt8G64,
                                              CodeFormat::kInt8G32,
                                              CodeFormat::kUint8G32Offset,
                                              CodeFormat::kE4m3,
                                              CodeFormat::kE5m2,
                                              CodeFormat::kMxE4m3,
                                              CodeFormat::kMxE5m2,
                                              CodeFormat::kMxE3m2,
                                              CodeFormat::kMxE2m3};

struct FormatTraits {
  Code code;
  int scales;      // of a line's group of 128
  int scale_size;  // bytes
  bool has_offsets = false;
  int terms = 1;  // numbers of f16 or bf16 whose sum a code stands for
};
constexpr FormatTraits TraitsOf(CodeFormat format) {
  switch (format) {
    case CodeFormat::kInt4:
      return {Code::kInt4, 1, 2};
    case CodeFormat::kInt4G64:
      return {Code::kInt4, 2, 2};
    case CodeFormat::kInt4G32:
      return {Code::kInt4, 4, 2};
    case CodeFormat::kUint4Offset:
      return {Code::kInt4, 1, 2, true};
    case CodeFormat::kUint4G64Offset:
      return {Code::kInt4, 2, 2, true};
    case CodeFormat::kUint4G32Offset:
      return {Code::kInt4, 4, 2, true};
    case CodeFormat::kUint4G32FloatOffset:
      return {Code::kInt4, 4, 4, true};
    case CodeFormat::kTableG64Float:
      return {Code::kTable, 2, 4, false, 2};
    case CodeFormat::kIq4NlG32:
      return {Code::kTable, 4, 2};
    case CodeFormat::kIq4NlG32Float:
      return {Code::kTable, 4, 4};
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
    case CodeFormat::kUint8G32Offset:
      return {Code::kInt8, 4, 4, true};
    case CodeFormat::kE4m3:
      return {Code::kE4m3, 1, 4};
    case CodeFormat::kE5m2:
      return {Code::kE5m2, 1, 4};
    case CodeFormat::kMxE4m3:
      return {Code::kE4m3, 4, 1};
    case CodeFormat::kMxE5m2:
      return {Code::kE5m2, 4, 1};
    case CodeFormat::kMxE3m2:
      return {Code::kE3m2, 4, 1};
    case CodeFormat::kMxE2m3:
      break;
  }
  return {Code::kE2m3, 4, 1};
}
constexpr Code CodeOf(CodeFormat format) { return TraitsOf(format).code; }

// Returns whether sums run on from one group of K to the next.
constexpr bool IsChain(CodeFormat format) {
  return format == CodeFormat::kMxfp4 || format == CodeFormat::kNvfp4;
}
constexpr int CodeBits(Code code) {
  if (code == Code::kInt4 || code == Code::kTable || code == Code::kE2m1) return 4;
  return code == Code::kE3m2 || code == Code::kE2m3 ? 6 : 8;
}
constexpr int CodeBits(CodeFormat format) { return CodeBits(CodeOf(format)); }
// The words of a lane's two steps, and those of them that one step reads: of 6 bits, one is both's.
constexpr int PairWords(Code code) { return CodeBits(code) / 2; }
constexpr int StepWords(Code code) { return (PairWords(code) + 1) / 2; }

// Scales of a line's group, and the K that one is for.
constexpr int ScalesOf(CodeFormat format) { return TraitsOf(format).scales; }
constexpr int ScaleSize(CodeFormat format) { return TraitsOf(format).scale_size; }
constexpr int ScaleK(CodeFormat format) { return kGroupK / ScalesOf(format); }
constexpr bool HasOffsets(CodeFormat format) { return TraitsOf(format).has_offsets; }
constexpr bool HasTable(CodeFormat format) { return CodeOf(format) == Code::kTable; }
constexpr bool HasTwoTerms(CodeFormat format) { return TraitsOf(format).terms == 2; }
// Returns whether a group's sum is made of parts, each of what has a scale of its own, which the
// warp that multiplies adds with their scales and offsets.
constexpr bool HasParts(CodeFormat format) {
  return (ScalesOf(format) > 1 && !IsChain(format)) || HasOffsets(format);
}

// The bytes of a unit.
constexpr int CodeBytes(Code code) { return kStripLines * kGroupK * CodeBits(code) / 8; }
constexpr int ScaleBytes(CodeFormat format) {
  return kStripLines * ScalesOf(format) * ScaleSize(format);
}
constexpr int ZeroBytes(CodeFormat format) { return kStripLines * ScalesOf(format); }
// Bytes of a unit's offsets, or of its zero points.
constexpr int ShiftBytes(CodeFormat format) {
  return HasOffsets(format) ? ScaleBytes(format) : ZeroBytes(format);
}

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
// A word of the lowest four bits of a step's codes of 6 bits, turned to the left by four times j,
// has those of register j in place: together. The word of both steps' upper two bits has them, the
// exponent's highest and the sign, when it is turned by this.
constexpr int SixBitRotation(Code code, int step, int j) {
  constexpr int kOfE3m2[] = {0, 4, 8, 28, 1, 5, 9, 29};
  constexpr int kOfE2m3[] = {0, 2, 4, 6, 8, 26, 28, 30};
  return (code == Code::kE3m2 ? kOfE3m2 : kOfE2m3)[step * 4 + j];
}
constexpr int SixBitPlace(Code code, int step, int j, int half, int bit) {
  const int in_bf16 = bit == 5 ? 15 : bit + (code == Code::kE3m2 ? 5 : 4);
  const int rotation = bit < 4 ? 4 * j : SixBitRotation(code, step, j);
  const int word = bit < 4 ? step : 2;
  return 32 * word + (in_bf16 + 16 * half + 32 - rotation) % 32;
}
// The place of bit `bit` (0 the lowest) of the code of register j, half `half`, of step 0 or 1, in
// the words of both, the first of which has bits 0 to 31.
constexpr int CodePlace(Code code, int step, int j, int half, int bit) {
  const int of_four = 32 * step;
  const int of_eight = 64 * step + 32 * (j / 2);
  switch (code) {
    case Code::kTable:
      return of_four + 8 * j + 4 * half + bit;
    case Code::kE2m1:
      return of_four + E2m1Bit(j, half, bit);
    case Code::kInt8:
    case Code::kE5m2:
      return of_eight + 16 * half + 8 * (j % 2) + bit;
    case Code::kE4m3:
      return of_eight + E4m3Bit(j, half, bit);
    case Code::kE3m2:
    case Code::kE2m3:
      return SixBitPlace(code, step, j, half, bit);
    case Code::kInt4:
      break;
  }
  return of_four + 16 * half + 4 * j + bit;
}
// For device code, which may not call them.
template <int kRegister, int kBit>
inline constexpr int kE2m1Rotation = E2m1Rotation(kRegister, kBit);
template <Code kCode, int kStep, int kRegister>
inline constexpr int kSixBitRotation = SixBitRotation(kCode, kStep, kRegister);
template <Code kCode, int kStep, int kRegister, int kHalf, int kBit>
inline constexpr int kCodePlace = CodePlace(kCode, kStep, kRegister, kHalf, kBit);

// The number that is taken from a stored code: none, the middle of the range that another type's
// codes are moved by (8 of 4 bits, -128 of 8), or one for each scale.
enum class ZeroKind : std::uint8_t { kNone, kMiddle, kPlane };

constexpr std::int64_t GroupsOf(std::int64_t k) { return (k + kGroupK - 1) / kGroupK; }
// Always two or more: the kernels' blocks have as many.
constexpr std::int64_t ChunksOf(std::int64_t n) {
  return (n + 2 * kChunkLines - 1) / (2 * kChunkLines) * 2;
}
constexpr std::int64_t UnitsOf(std::int64_t n, std::int64_t k) {
  return ChunksOf(n) * GroupsOf(k) * kChunkStrips;
}

// Bytes of sums of A's rows (row_sums.h), padded to the largest tile.
constexpr std::uint64_t RowSumBytes(CodeFormat format, std::int64_t m, std::int64_t k) {
  const std::int64_t rows = (m + 127) / 128 * 128;
  return static_cast<std::uint64_t>(rows * GroupsOf(k) * ScalesOf(format)) * sizeof(float);
}

}  // namespace gemmd::hopper::quant
