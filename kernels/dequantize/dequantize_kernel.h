// The kernels behind dequantize.h. Memory should be their limit. So whatever a run of eight codes
// needs to know is looked up once a line or known to the compiler, and no run divides by a value
// that the compiler does not know.
//
//   LineFactors   the factors of each line, by threads that share it
//   Dequantize    values, in runs of eight neighbours along K, four runs of a line a thread. Where
//                 K does not run fastest in memory, a block brings a tile of 64 lines by 64 of K
//                 into shared memory first.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/numbers/scaling.h"
#include "kernels/dequantize/code_format.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::dequantize {

inline constexpr int kThreads = 256;
inline constexpr int kRun = 8;   // values; blocks of scales begin at multiples of it
inline constexpr int kRuns = 4;  // of a thread
inline constexpr int kTile = 64;
inline constexpr int kTilePitch = kTile + 1;  // words; neighbours of either direction do not clash
inline constexpr std::uint32_t kTableBytes =
    16 * 4;  // first in shared memory, where codes have one
inline constexpr std::uint32_t kTileBytes = kTile * kTilePitch * 4;
inline constexpr int kLineThreads = 32;  // that share a line's scales
inline constexpr int kWholeLog2 = 62;

inline namespace GEMMD_BACKEND {

// Null pointers stand for what is absent.
struct DequantizeParams {
  const void* codes;
  const void* scales;
  const void* zero_points;
  const float* tensor_scale;
  const void* offsets;  // of the scales' format
  void* values;
  float* line_scales;
  float* line_factors;
  std::int64_t lines;
  std::int64_t k;
  std::int64_t line_stride;
  std::int64_t k_stride;
  std::int64_t pitch;
  std::int64_t line_blocks;  // of scales
  std::int64_t k_blocks;
  bool has_block_factors;  // else a line's one scale is its line factor
  CodeFormat element;
  CodeFormat scale;
  ScaleOrder order;
  std::uint8_t block_lines_log2;  // kWholeLog2 where a block takes all of the dimension
  std::uint8_t block_k_log2;
  bool zero_points_are_signed;
  float table[16];                  // the values of an element's codes, where it has a table
  std::uint32_t line_threads_log2;  // of Dequantize: threads that share a line, of kThreads
  std::uint32_t blocks_along_line;
};

template <CodeTop kTop>
GEMMD_DEVICE float ValueOfFloatCode(const CodeFormat& format, std::uint32_t code) {
  const std::uint32_t sign_bit = 1u << (format.bits - 1);
  const std::uint32_t sign = (code & sign_bit) << (32 - format.bits);
  const std::uint32_t magnitude = code & (sign_bit - 1);
  const std::uint32_t shifted = magnitude << (23 - format.fraction_bits);
  if (kTop == CodeTop::kOneNan && magnitude == sign_bit - 1) {
    return ptx::FloatOfBits(sign | 0x7fc00000u);
  }
  if (kTop == CodeTop::kInfinityAndNans) {
    const std::uint32_t exponent_mask = (sign_bit - 1) & ~((1u << format.fraction_bits) - 1);
    if ((magnitude & exponent_mask) == exponent_mask) {
      return ptx::FloatOfBits(sign | 0x7f800000u | shifted);
    }
  }
  // The magnitude in binary32's fields; the unit corrects its exponent and normalises subnormals.
  return ptx::FloatOfBits(sign | ptx::BitsOfFloat(ptx::FloatOfBits(shifted) * format.unit));
}

template <CodeTop kTop, int kCount>
GEMMD_DEVICE void ValuesOfFloatCodes(const CodeFormat& format, const std::uint32_t (&codes)[kCount],
                                     float (&values)[kCount]) {
  GEMMD_UNROLL
  for (int i = 0; i < kCount; ++i) values[i] = ValueOfFloatCode<kTop>(format, codes[i]);
}

// Brings the table to shared memory, where 16 values lie in 16 banks: a warp reads any of them at
// once. REQUIRES: all threads of the block come here.
GEMMD_DEVICE void BringTable(const DequantizeParams& params) {
  const std::uint32_t thread = ptx::ThreadIndex();
  if (thread < 16) ptx::StoreShared(ptx::SharedBase() + thread * 4, params.table[thread]);
  ptx::SyncThreads();
}

// Exact. REQUIRES: of CodeKind::kTable, BringTable() was called.
template <int kCount>
GEMMD_DEVICE void ValuesOfCodes(const CodeFormat& format, const std::uint32_t (&codes)[kCount],
                                float (&values)[kCount]) {
  switch (format.kind) {
    case CodeKind::kUnsigned:
      GEMMD_UNROLL
      for (int i = 0; i < kCount; ++i) values[i] = static_cast<float>(codes[i]);
      return;
    case CodeKind::kSigned: {
      const std::uint32_t sign = 1u << (format.bits - 1);
      GEMMD_UNROLL
      for (int i = 0; i < kCount; ++i) {
        values[i] = static_cast<float>(static_cast<std::int32_t>(codes[i] ^ sign) -
                                       static_cast<std::int32_t>(sign));
      }
      return;
    }
    case CodeKind::kE8M0:
      GEMMD_UNROLL
      for (int i = 0; i < kCount; ++i) {
        std::uint32_t bits = codes[i] << 23;
        if (codes[i] == 0) bits = 0x00400000u;
        if (codes[i] == 0xff) bits = 0x7fc00000u;
        values[i] = ptx::FloatOfBits(bits);
      }
      return;
    case CodeKind::kTable:
      GEMMD_UNROLL
      for (int i = 0; i < kCount; ++i) {
        values[i] = ptx::LoadShared<float>(ptx::SharedBase() + codes[i] * 4);
      }
      return;
    case CodeKind::kFloat:
      break;
  }
  switch (format.top) {
    case CodeTop::kFinite:
      return ValuesOfFloatCodes<CodeTop::kFinite>(format, codes, values);
    case CodeTop::kOneNan:
      return ValuesOfFloatCodes<CodeTop::kOneNan>(format, codes, values);
    case CodeTop::kInfinityAndNans:
      return ValuesOfFloatCodes<CodeTop::kInfinityAndNans>(format, codes, values);
  }
}

GEMMD_DEVICE float ValueOfCode(const CodeFormat& format, std::uint32_t code) {
  const std::uint32_t codes[1] = {code};
  float values[1];
  ValuesOfCodes(format, codes, values);
  return values[0];
}

// The code of that index in a plane, byte by byte.
GEMMD_DEVICE std::uint32_t LoadPackedCode(const void* codes, int bits, std::int64_t index) {
  const std::int64_t first_bit = index * bits;
  const auto* at = static_cast<const std::uint8_t*>(codes) + first_bit / 8;
  const int shift = static_cast<int>(first_bit % 8);
  std::uint32_t code = std::uint32_t{ptx::LoadGlobal(at)} >> shift;
  for (int have = 8 - shift; have < bits; have += 8) {
    code |= std::uint32_t{ptx::LoadGlobal(++at)} << have;
  }
  return bits == 32 ? code : code & ((1u << bits) - 1);
}

// The index of the scale of element (line, k).
GEMMD_DEVICE std::int64_t ScaleIndexOf(const DequantizeParams& params, std::int64_t line,
                                       std::int64_t block) {
  const std::int64_t line_block = line >> params.block_lines_log2;
  switch (params.order) {
    case ScaleOrder::kAlongK:
      return line_block * params.k_blocks + block;
    case ScaleOrder::kAlongLines:
      return block * params.line_blocks + line_block;
    default:
      break;
  }
  // Unsigned, because signed quotients cost more.
  const auto of_line = static_cast<std::uint64_t>(line_block);
  const auto of_k = static_cast<std::uint64_t>(block);
  const std::uint64_t tile =
      of_line / 128 * ((static_cast<std::uint64_t>(params.k_blocks) + 3) / 4) + of_k / 4;
  const std::uint64_t in_tile = of_line % 128;
  return static_cast<std::int64_t>(tile * 512 + in_tile % 32 * 16 + in_tile / 32 * 4 + of_k % 4);
}

// The code of a scale, or of an offset: it has whole bytes and lies at a multiple of its size.
GEMMD_DEVICE std::uint32_t LoadScaleCode(const DequantizeParams& params, const void* plane,
                                         std::int64_t index) {
  if (params.scale.bits == 8) {
    return ptx::LoadGlobal(static_cast<const std::uint8_t*>(plane) + index);
  }
  if (params.scale.bits == 16) {
    return ptx::LoadGlobal(static_cast<const std::uint16_t*>(plane) + index);
  }
  return ptx::LoadGlobal(static_cast<const std::uint32_t*>(plane) + index);
}

GEMMD_DEVICE float LoadScale(const DequantizeParams& params, const void* plane,
                             std::int64_t index) {
  return ValueOfCode(params.scale, LoadScaleCode(params, plane, index));
}

// The largest power of two up to a positive finite value.
GEMMD_DEVICE float PowerOfTwoBelow(float value) {
  std::uint32_t bits = ptx::BitsOfFloat(value);
  if (bits >= 0x00800000u) return ptx::FloatOfBits(bits & 0x7f800000u);
  while ((bits & (bits - 1)) != 0) bits &= bits - 1;  // a subnormal's highest bit
  return ptx::FloatOfBits(bits);
}

// The bits of a magnitude, which order as the values do; 0 for what is not finite.
GEMMD_DEVICE std::uint32_t FiniteMagnitude(float value) {
  const std::uint32_t bits = ptx::BitsOfFloat(value) & 0x7fffffffu;
  return bits < 0x7f800000u ? bits : 0;
}

// scale / power, rounded once. REQUIRES: power is a power of two.
template <typename T>
GEMMD_DEVICE T DividedByPowerOfTwo(float scale, float power) {
  const std::uint32_t exponent = ptx::BitsOfFloat(power) >> 23;
  if (exponent == 0) return static_cast<T>(scale) / static_cast<T>(power);
  const std::uint32_t inverse = exponent == 254 ? 0x00400000u : (254 - exponent) << 23;
  return static_cast<T>(scale) * static_cast<T>(ptx::FloatOfBits(inverse));
}

GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kThreads, 4)
    LineFactors(GEMMD_GRID_CONSTANT const DequantizeParams params) {
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t lane = thread % kLineThreads;
  const std::int64_t line =
      static_cast<std::int64_t>(ptx::BlockIndexX()) * (kThreads / kLineThreads) +
      thread / kLineThreads;
  const ptx::SharedAddress shared = ptx::SharedBase();
  std::uint32_t largest = 0;
  if (line < params.lines && params.has_block_factors) {
    for (std::int64_t block = lane; block < params.k_blocks; block += kLineThreads) {
      const std::int64_t index = ScaleIndexOf(params, line, block);
      const std::uint32_t bits = FiniteMagnitude(LoadScale(params, params.scales, index));
      if (bits > largest) largest = bits;
      if (params.offsets == nullptr) continue;
      const std::uint32_t offset = FiniteMagnitude(LoadScale(params, params.offsets, index));
      if (offset > largest) largest = offset;
    }
  }
  ptx::StoreShared(shared + thread * 4, largest);
  ptx::SyncThreads();
  if (lane != 0 || line >= params.lines) return;
  float scale = 1;
  if (!params.has_block_factors) {
    scale = LoadScale(params, params.scales, ScaleIndexOf(params, line, 0));
  } else {
    for (std::uint32_t i = 1; i < kLineThreads; ++i) {
      const auto other = ptx::LoadShared<std::uint32_t>(shared + (thread + i) * 4);
      if (other > largest) largest = other;
    }
    if (largest != 0) scale = PowerOfTwoBelow(ptx::FloatOfBits(largest));
  }
  ptx::StoreGlobal(params.line_scales + line, scale);
  if (params.tensor_scale != nullptr) {
    ptx::StoreGlobal(params.line_factors + line, scale * ptx::LoadGlobal(params.tensor_scale));
  }
}

// The types of values. Each has the arithmetic that makes them, and packs 16 bytes of them.
struct ToBf16 {
  using Arithmetic = float;
  static constexpr int kPerVector = 8;
  GEMMD_DEVICE static void Pack(const float* values, std::uint32_t* words) {
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) words[i] = ptx::PackBf16(values[2 * i], values[2 * i + 1]);
  }
};
struct ToF16 {
  using Arithmetic = float;
  static constexpr int kPerVector = 8;
  GEMMD_DEVICE static void Pack(const float* values, std::uint32_t* words) {
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) words[i] = ptx::PackF16(values[2 * i], values[2 * i + 1]);
  }
};
struct ToF32 {
  using Arithmetic = float;
  static constexpr int kPerVector = 4;
  GEMMD_DEVICE static void Pack(const float* values, std::uint32_t* words) {
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) words[i] = ptx::BitsOfFloat(values[i]);
  }
};
struct ToF64 {
  using Arithmetic = double;
  static constexpr int kPerVector = 2;
  GEMMD_DEVICE static void Pack(const double* values, std::uint32_t* words) {
    memcpy(words, values, 16);
  }
};

struct alignas(16) Vector {
  std::uint32_t words[4];
};

// The format of an operand's codes: known to the launch alone, or to the compiler too, which then
// leaves out what other formats need.
struct AnyElement {
  GEMMD_DEVICE static CodeFormat Format(const DequantizeParams& params) { return params.element; }
};
template <CodeKind kKind, int kBits>
struct IntegerElement {
  GEMMD_DEVICE static CodeFormat Format(const DequantizeParams& /*params*/) {
    CodeFormat format;
    format.kind = kKind;
    format.bits = kBits;
    return format;
  }
};
template <CodeTop kTop, int kBits, int kFractionBits, int kBias>
struct FloatElement {
  GEMMD_DEVICE static CodeFormat Format(const DequantizeParams& /*params*/) {
    CodeFormat format;
    format.kind = CodeKind::kFloat;
    format.top = kTop;
    format.bits = kBits;
    format.fraction_bits = kFractionBits;
    format.unit = ptx::FloatOfBits((254u - kBias) << 23);
    return format;
  }
};

struct TableElement {
  GEMMD_DEVICE static CodeFormat Format(const DequantizeParams& /*params*/) {
    CodeFormat format;
    format.kind = CodeKind::kTable;
    format.bits = 4;
    return format;
  }
};

// The runs of a line share it.
struct Line {
  std::int64_t index = 0;
  float scale = 1;                // where runs have factors
  std::int64_t first_code = 0;    // of K's first element
  bool is_aligned = false;        // runs of codes begin with a piece
  std::int64_t first_scale = 0;   // of K's first block, and
  std::int64_t scale_stride = 0;  // from block to block; meaningless of tiles
};

// The numbers of a run's block, as they lie in memory: they are loaded before its codes, so that
// nothing waits for one after the other.
struct RunScale {
  std::uint32_t scale = 0;
  std::uint32_t zero_point = 0;
  std::uint32_t offset = 0;
};

GEMMD_DEVICE RunScale LoadRunScale(const DequantizeParams& params, const Line& line,
                                   std::int64_t k) {
  RunScale run;
  if (params.scales == nullptr) return run;
  const std::int64_t block = k >> params.block_k_log2;
  const std::int64_t index = params.order == ScaleOrder::kTiles128x4
                                 ? ScaleIndexOf(params, line.index, block)
                                 : line.first_scale + block * line.scale_stride;
  if (params.has_block_factors) run.scale = LoadScaleCode(params, params.scales, index);
  if (params.offsets != nullptr) run.offset = LoadScaleCode(params, params.offsets, index);
  if (params.zero_points != nullptr) {
    run.zero_point = ptx::LoadGlobal(static_cast<const std::uint8_t*>(params.zero_points) + index);
  }
  return run;
}

// Scales the elements [k, k + kRun) of a line and stores them, with zeros past K.
template <class To>
GEMMD_DEVICE void StoreRun(const DequantizeParams& params, const Line& line, std::int64_t k,
                           const RunScale& run, const float (&elements)[kRun]) {
  using T = typename To::Arithmetic;
  T factor = 1;
  T zero_point = 0;
  if (params.has_block_factors) {
    // Exact, but where the quotient is subnormal.
    factor = DividedByPowerOfTwo<T>(ValueOfCode(params.scale, run.scale), line.scale);
  }
  if (params.zero_points != nullptr) {
    const int code = static_cast<int>(run.zero_point);
    zero_point = static_cast<T>(params.zero_points_are_signed && code >= 128 ? code - 256 : code);
  }
  T values[kRun];
  GEMMD_UNROLL
  for (int i = 0; i < kRun; ++i) values[i] = (static_cast<T>(elements[i]) - zero_point) * factor;
  if (params.offsets != nullptr) {
    const T offset = DividedByPowerOfTwo<T>(ValueOfCode(params.scale, run.offset), line.scale);
    GEMMD_UNROLL
    for (int i = 0; i < kRun; ++i) {
      values[i] = std::fma(static_cast<T>(elements[i]), factor, offset);
    }
  }
  if (k + kRun > params.k) {
    GEMMD_UNROLL
    for (int i = 0; i < kRun; ++i) {
      if (k + i >= params.k) values[i] = 0;
    }
  }
  constexpr int kVectors = kRun / To::kPerVector;
  auto* to = reinterpret_cast<Vector*>(static_cast<char*>(params.values)) +
             static_cast<std::uint64_t>(line.index * params.pitch + k) / To::kPerVector;
  GEMMD_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    Vector vector;
    To::Pack(values + i * To::kPerVector, vector.words);
    ptx::StoreGlobal(to + i, vector);
  }
}

// The bytes of a plane that are loaded at once where codes of that size begin at a multiple of
// them.
template <int kBits>
using PieceOf = std::conditional_t<kBits == 6, std::uint16_t,
                                   std::conditional_t<kBits == 4, std::uint32_t, std::uint64_t>>;

// The codes [index, index + kRun) of a plane, where they begin with a piece.
template <int kBits>
GEMMD_DEVICE void LoadAlignedCodes(const void* codes, std::int64_t index,
                                   std::uint32_t (&out)[kRun]) {
  using Piece = PieceOf<kBits>;
  constexpr int kPieceBits = 8 * sizeof(Piece);
  constexpr int kPieces = kRun * kBits / kPieceBits;
  const auto* from =
      reinterpret_cast<const Piece*>(static_cast<const char*>(codes) + index * kBits / 8);
  std::uint64_t held = 0;
  int bits = 0;
  int next = 0;
  GEMMD_UNROLL
  for (int piece = 0; piece < kPieces; ++piece) {
    held |= std::uint64_t{ptx::LoadGlobal(from + piece)} << bits;
    bits += kPieceBits;
    GEMMD_UNROLL
    for (int i = 0; i < kPieceBits; ++i) {
      if (bits < kBits) break;
      out[next++] = static_cast<std::uint32_t>(held & ((std::uint64_t{1} << kBits) - 1));
      held >>= kBits;
      bits -= kBits;
    }
  }
}

GEMMD_DEVICE Line LineAt(const DequantizeParams& params, std::int64_t index, int bits) {
  Line line;
  line.index = index;
  if (params.has_block_factors) line.scale = ptx::LoadGlobal(params.line_scales + index);
  line.first_code = index * params.line_stride;
  // Lines may begin anywhere in a byte; a run, of eight codes, fills whole pieces.
  const auto address = reinterpret_cast<std::uintptr_t>(params.codes);
  const std::uint32_t piece_bytes = bits == 6 ? 2 : bits == 4 ? 4 : 8;
  line.is_aligned =
      (line.first_code * bits & (8 * piece_bytes - 1)) == 0 && (address & (piece_bytes - 1)) == 0;
  line.first_scale = ScaleIndexOf(params, index, 0);
  line.scale_stride = params.order == ScaleOrder::kAlongK ? 1 : params.line_blocks;
  return line;
}

// The elements [k, k + kRun) of a line whose neighbours along K are neighbours in memory.
GEMMD_DEVICE void LoadRun(const DequantizeParams& params, const CodeFormat& format,
                          const Line& line, std::int64_t k, float (&elements)[kRun]) {
  const std::int64_t index = line.first_code + k;
  std::uint32_t codes[kRun] = {};
  const bool is_aligned = line.is_aligned && k + kRun <= params.k;
  if (is_aligned && format.bits == 4) {
    LoadAlignedCodes<4>(params.codes, index, codes);
  } else if (is_aligned && format.bits == 6) {
    LoadAlignedCodes<6>(params.codes, index, codes);
  } else if (is_aligned && format.bits == 8) {
    LoadAlignedCodes<8>(params.codes, index, codes);
  } else if (is_aligned && format.bits == 16) {
    LoadAlignedCodes<16>(params.codes, index, codes);
  } else if (is_aligned && format.bits == 32) {
    LoadAlignedCodes<32>(params.codes, index, codes);
  } else {
    GEMMD_UNROLL
    for (int i = 0; i < kRun; ++i) {
      if (k + i < params.k) codes[i] = LoadPackedCode(params.codes, format.bits, index + i);
    }
  }
  ValuesOfCodes(format, codes, elements);
}

// K runs fastest in memory.
template <class To, class Element>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kThreads, 4)
    DequantizeLines(GEMMD_GRID_CONSTANT const DequantizeParams params) {
  const CodeFormat format = Element::Format(params);
  if (format.kind == CodeKind::kTable) BringTable(params);
  const std::uint32_t line_threads = 1u << params.line_threads_log2;
  const std::uint32_t lines_per_block = kThreads >> params.line_threads_log2;
  const std::uint32_t block = ptx::BlockIndexX();
  const std::int64_t index =
      static_cast<std::int64_t>(block / params.blocks_along_line) * lines_per_block +
      (ptx::ThreadIndex() >> params.line_threads_log2);
  if (index >= params.lines) return;
  const Line line = LineAt(params, index, format.bits);
  std::int64_t k =
      (static_cast<std::int64_t>(block % params.blocks_along_line) * kRuns * line_threads +
       (ptx::ThreadIndex() & (line_threads - 1))) *
      kRun;
  GEMMD_NO_UNROLL
  for (int i = 0; i < kRuns && k < params.k; ++i, k += line_threads * kRun) {
    const RunScale run = LoadRunScale(params, line, k);
    float elements[kRun];
    LoadRun(params, format, line, k, elements);
    StoreRun<To>(params, line, k, run, elements);
  }
}

// Lines run fastest in memory.
template <class To>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kThreads, 4)
    DequantizeTiles(GEMMD_GRID_CONSTANT const DequantizeParams params) {
  const std::uint32_t block = ptx::BlockIndexX();
  const std::int64_t first_k = static_cast<std::int64_t>(block % params.blocks_along_line) * kTile;
  const std::int64_t first_line =
      static_cast<std::int64_t>(block / params.blocks_along_line) * kTile;
  const ptx::SharedAddress shared = ptx::SharedBase() + kTableBytes;
  const auto thread = static_cast<int>(ptx::ThreadIndex());
  if (params.element.kind == CodeKind::kTable) BringTable(params);
  for (int i = thread; i < kTile * kTile; i += kThreads) {
    const std::int64_t line = first_line + i % kTile;
    const std::int64_t k = first_k + i / kTile;
    if (line >= params.lines || k >= params.k) continue;
    const float element = ValueOfCode(
        params.element, LoadPackedCode(params.codes, params.element.bits,
                                       line * params.line_stride + k * params.k_stride));
    ptx::StoreShared(shared + static_cast<std::uint32_t>(i / kTile * kTilePitch + i % kTile) * 4,
                     element);
  }
  ptx::SyncThreads();
  for (int run = thread; run < kTile * kTile / kRun; run += kThreads) {
    const int line = run / (kTile / kRun);
    const int k = run % (kTile / kRun) * kRun;
    if (first_line + line >= params.lines || first_k + k >= params.k) continue;
    float elements[kRun] = {};
    GEMMD_UNROLL
    for (int i = 0; i < kRun; ++i) {
      if (first_k + k + i >= params.k) continue;
      elements[i] = ptx::LoadShared<float>(
          shared + static_cast<std::uint32_t>((k + i) * kTilePitch + line) * 4);
    }
    const Line of_run = LineAt(params, first_line + line, params.element.bits);
    StoreRun<To>(params, of_run, first_k + k, LoadRunScale(params, of_run, first_k + k), elements);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::dequantize
