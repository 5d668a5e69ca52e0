// The scaling of an operand says how its values follow from what is stored: by the scales of its
// blocks and their zero points, and where both lie. It is a value. The operand's type says which
// elements they scale.
//
// An operand is looked at as lines of K elements: rows of op(A), columns of op(B). Element (line,
// k) is worth
//
//     (code - zero point of its block) * scale of its block * scale of the tensor
//         + offset of its block,
//
// where what is absent is 0 or 1, and the block of (line, k) is (line / block_lines, k / block_k).
// Blocks at the ends of lines and K are smaller: they hold the elements that there are.
// base/numbers/quant/README.md has every format.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace gemmd {

enum class DataType : std::uint8_t;

// Scales, zero points and offsets are matrices of line_blocks x k_blocks; where block (line, k)
// lies:
enum class ScaleOrder : std::uint8_t {
  kAlongK,      // index line * k_blocks + k: A's scales row-major
  kAlongLines,  // index k * line_blocks + line: B's scales row-major
  // Tiles of 128 lines by 4 blocks of K, 512 scales each, whole at the edges; tiles of the same
  // lines follow each other. Within a tile (line, k) is at (line % 32) * 16 + (line / 32) * 4 + k.
  // tcgen05.cp.32x128b.warpx4 takes this order, and cuBLASLt reads it for VEC32_UE8M0 and
  // VEC16_UE4M3. Sources: PTX ISA, "tcgen05", "Scale factor A/B"; cuBLAS documentation, "1D Block
  // Scaling Factors Layout".
  kTiles128x4,
};

// Places in a plane of scales, those that pad tiles included. Padding is 0, and nobody reads it.
constexpr std::int64_t ScaleCount(ScaleOrder order, std::int64_t line_blocks,
                                  std::int64_t k_blocks) {
  if (order != ScaleOrder::kTiles128x4) return line_blocks * k_blocks;
  return (line_blocks + 127) / 128 * ((k_blocks + 3) / 4) * 512;
}

constexpr std::int64_t ScaleIndex(ScaleOrder order, std::int64_t line_blocks, std::int64_t k_blocks,
                                  std::int64_t line, std::int64_t k) {
  switch (order) {
    case ScaleOrder::kAlongK:
      return line * k_blocks + k;
    case ScaleOrder::kAlongLines:
      return k * line_blocks + line;
    case ScaleOrder::kTiles128x4:
      break;
  }
  const std::int64_t tile = line / 128 * ((k_blocks + 3) / 4) + k / 4;
  const std::int64_t line_in_tile = line % 128;
  return tile * 512 + line_in_tile % 32 * 16 + line_in_tile / 32 * 4 + k % 4;
}

// A block that takes the whole of a dimension.
inline constexpr std::uint16_t kWhole = 0;

// Blocks of elements that share a scale, as a client names them: gemmd.v1.Quantization.
struct BlockScaling {
  std::uint32_t block_k = 0;
  std::uint32_t block_lines = 1;
  bool is_tiled = false;  // SCALES_BLOCKED_128X4
};

constexpr bool operator==(const BlockScaling& x, const BlockScaling& y) {
  return x.block_k == y.block_k && x.block_lines == y.block_lines && x.is_tiled == y.is_tiled;
}
constexpr bool operator!=(const BlockScaling& x, const BlockScaling& y) { return !(x == y); }

struct Scaling {
  // Without scales each is 1, and nothing below means anything: leave it as it is.
  bool has_scales = false;
  DataType type{1};  // F32, F16, BF16, E8M0 or FP8_E4M3
  std::uint16_t block_lines = kWhole;
  std::uint16_t block_k = kWhole;
  ScaleOrder order = ScaleOrder::kAlongK;  // of scales, zero points and offsets
  bool has_zero_points = false;   // one byte a block, of the range of the elements; integers only
  bool has_tensor_scale = false;  // one more f32
  bool has_offsets = false;       // a number of the scales' type a block; integers only

  static const Scaling kNone;
  static const Scaling kTensor;  // one f32
  static const Scaling kVector;  // one f32 for each line

  // Returns whether it is one of these three: a sum over K may be scaled when it is done.
  bool scales_whole_lines() const;

  // Blocks along a dimension of that size.
  std::int64_t line_blocks(std::int64_t lines) const {
    return block_lines == kWhole ? 1 : (lines + block_lines - 1) / block_lines;
  }
  std::int64_t k_blocks(std::int64_t k) const {
    return block_k == kWhole ? 1 : (k + block_k - 1) / block_k;
  }
  // Places in the planes of scales, of zero points and of offsets.
  std::int64_t count(std::int64_t lines, std::int64_t k) const {
    return has_scales ? ScaleCount(order, line_blocks(lines), k_blocks(k)) : 0;
  }
  // Returns the index of the block of element (line, k) in a matrix of lines x k_size.
  std::int64_t index(std::int64_t lines, std::int64_t k_size, std::int64_t line,
                     std::int64_t k) const {
    return ScaleIndex(order, line_blocks(lines), k_blocks(k_size),
                      block_lines == kWhole ? 0 : line / block_lines,
                      block_k == kWhole ? 0 : k / block_k);
  }

  // All of it in one number: two scalings are equal where these are.
  constexpr std::uint64_t key() const {
    std::uint64_t key =
        static_cast<std::uint64_t>(block_lines) << 48 | static_cast<std::uint64_t>(block_k) << 32 |
        static_cast<std::uint64_t>(type) << 8 | static_cast<std::uint64_t>(order) << 4;
    if (has_scales) key |= 1;
    if (has_zero_points) key |= 2;
    if (has_tensor_scale) key |= 4;
    if (has_offsets) key |= 8;
    return key;
  }
};

inline constexpr Scaling Scaling::kNone = {};
inline constexpr Scaling Scaling::kTensor = {true};
inline constexpr Scaling Scaling::kVector = {true, DataType{1}, 1};

constexpr bool operator==(const Scaling& x, const Scaling& y) { return x.key() == y.key(); }
constexpr bool operator!=(const Scaling& x, const Scaling& y) { return x.key() != y.key(); }
constexpr bool operator<(const Scaling& x, const Scaling& y) { return x.key() < y.key(); }

inline bool Scaling::scales_whole_lines() const {
  return *this == kNone || *this == kTensor || *this == kVector;
}

template <typename H>
H AbslHashValue(H h, const Scaling& scaling) {
  return H::combine(std::move(h), scaling.key());
}

// "none", "tensor", "vector", else what the blocks are: "e8m0/1x32", "f16/1x64+zp",
// "f16/1x32+offset", "fp8_e4m3/1x16+tensor", "f32/128x128@tiles".
std::string Name(const Scaling& scaling);

}  // namespace gemmd
