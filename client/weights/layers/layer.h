// A matrix that several tensors of a file make: codes, the scales of its blocks, and perhaps zero
// points and one scale of all. An element is worth
//
//     (code - zero point of its block) * scale of its block * scale of all
//
// or, with offsets, code * scale of its block + offset of its block.
//
// Each program has these planes in an order of its own, so that a layer says where they lie. It is
// a value; no files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numbers/types.h"
#include "base/order/k_order.h"
#include "client/bytes.h"
#include "client/quantized/quantized_array.h"
#include "client/weights/fnuz.h"

namespace gemmd::client {

// Where the indices of one dimension lie. Neighbours are in words of `per_word`, which are `step`
// bits apart; index i is at `places[i % per_word]` in its own. Words of more bits than 32 lie in
// parts of 32 bits, `part_step` bits apart, and have their indices in order without gaps, so that
// one may begin in one part and end in the next: `places` says nothing of them. Where the number of
// words is said, neighbours are in neighbouring words: index i is in word i % words, at
// `places[i / words]`.
struct Axis {
  std::uint64_t step = 0;  // 0: the dimension has one index, or all indices share one place
  std::uint64_t per_word = 1;
  std::uint64_t part_step = 0;        // 0: words have no parts. K alone may have them
  std::uint64_t words = 0;            // 0: neighbours are in one word. A line alone may say it
  std::vector<std::uint16_t> places;  // in numbers of the plane's bits. Empty: they are in order
  // The bits of a number lie in pieces of so many, lowest first, each a divisor of 32: 32 indices
  // make a word of all their first pieces, then all their second ones. Empty: they lie together.
  std::vector<std::uint8_t> pieces;
};

// Codes, scales or zero points. Stacks of matrices have a part for each.
struct Plane {
  Bytes bytes;
  int bits = 0;  // of one: 1 to 8, 16 or 32, in words of at least as many
  Axis line;
  Axis k;
  std::uint64_t part_bytes = 0;  // from one matrix of a stack to the next; 0: they share it

  std::uint32_t Load(std::uint64_t line_index, std::uint64_t k_index) const;
};

// Planes of lines, each of which has its indices of K in order: `columns` in a line.
Plane PlaneOfLines(const Bytes& bytes, int bits, std::uint64_t columns);

// Scales of a byte each, `columns` a line, in the tiles of 128 x 4 of tcgen05.
Plane PlaneOfTiles(const Bytes& bytes, std::uint64_t columns);

// The shape, in scales, in which files have such tiles: whole ones.
std::vector<std::uint64_t> ShapeOfTiles(std::uint64_t lines, std::uint64_t columns);

// Blocks of elements that share a scale. 0: all of that dimension.
struct BlockShape {
  std::uint64_t lines = 0;
  std::uint64_t k = 0;
};

// Scales that are codes themselves, of 8 bits. A scale is
//
//     table[code] * scale of its run of codes + offset,
//
// whose product and whose sum are rounded to f32.
struct NestedScales {
  Plane table;   // 256 F32
  Plane scales;  // F32
  std::uint64_t run = 0;
  float offset = 0;
};

// Numbers of blocks that make offsets, which are added to code times scale.
enum class OffsetKind : std::uint8_t {
  kAdded,       // they are the offsets
  kSubtracted,  // offsets are -number
  kZeroPoints,  // (code - number) * scale: offsets are -(number * scale)
  kOfSigned,    // of codes less 8: offsets are number - 8 * scale
};

struct Offsets {
  Plane plane;
  DataType type{};  // of its numbers: F32, F16 or BF16
  OffsetKind kind = OffsetKind::kAdded;
};

struct Layer {
  std::string type;         // of what it is made, for lists: "GPTQ"
  std::string why;          // there is no form, for this; else empty
  std::string format;       // else the form (layer_form.h)
  std::uint64_t parts = 0;  // matrices in a stack; 0: it is no stack
  std::uint64_t file_bytes = 0;
  // The type of codes once `flip` is XORed to them. Those of fewer bits are numbers of it.
  DataType element{};
  std::uint32_t flip = 0;
  const Fnuz* fnuz = nullptr;  // not null: codes are of that type, which is like `element`
  Plane codes;
  BlockShape block;
  DataType scale_type{};  // F32, F16, BF16, E8M0 or FP8_E4M3
  Plane scales;
  // Not 0: scales are of so many elements of lines x K, line by line, of which each block is a
  // part.
  std::uint64_t run = 0;
  std::optional<NestedScales> nested;  // codes of which `scales` has
  float scale_factor = 1;              // of F32 scales; products are rounded to f32
  std::optional<Plane> zero_points;    // of the elements
  std::uint32_t zero_flip = 0;         // XORed to them
  bool zero_points_are_less = false;   // by 1
  std::optional<Offsets> offsets;      // instead of zero points
  std::optional<Plane> overall_scale;  // one F32
  bool overall_scale_divides = false;
  // Place i of K, as blocks have it, is place k_order[i] of the codes; null: the same.
  KOrder k_order;
};

// Its planes that are there.
std::vector<const Plane*> PlanesOf(const Layer& layer);

// One matrix of the stack. REQUIRES: index < layer.parts.
Layer PartOf(const Layer& layer, std::uint64_t index);

// Exact, but for the reciprocal of an overall scale that divides, for scales with a factor, and for
// offsets by scales of F32, which are rounded once to f32. INVALID_ARGUMENT, with the place and the
// cause: a scale or an offset is NaN or infinite, an offset has no f32, a zero point can be read in
// two ways, or a block of FNUZ codes has both too large and too small ones.
// REQUIRES: the layer has a format, this shape, and bytes for it; it is no stack.
absl::StatusOr<QuantizedArray> DecodeLayer(const Layer& layer, std::uint64_t lines,
                                           std::uint64_t k);

}  // namespace gemmd::client
