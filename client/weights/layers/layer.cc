#include "client/weights/layers/layer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "base/numbers/quant/small_float.h"
#include "base/process/cpu_share.h"
#include "base/sync/thread_loop.h"

namespace gemmd::client {
namespace {

using Byte = std::uint8_t;

constexpr std::uint64_t kEight = 8;
constexpr std::uint64_t kPartBits = 32;  // of words that lie in parts
constexpr std::uint64_t kWordBits = 32;
constexpr std::uint64_t kPartLines = 64;  // that one thread decodes at a time
constexpr std::uint32_t kE4M3Magnitude = 0x7f;
constexpr std::uint64_t kTileLines = 128;
constexpr std::uint64_t kTileColumns = 4;
constexpr std::uint64_t kTileRows = 32;  // of 16 scales

std::uint64_t BitsAlong(const Axis& axis, int bits, std::uint64_t index) {
  std::uint64_t word = index;
  if (axis.words != 0) {
    word = index % axis.words;
    index /= axis.words;
  } else if (axis.per_word != 1) {
    word = index / axis.per_word;
  } else {
    return axis.step * index;
  }
  const std::uint64_t place =
      axis.places.empty() ? index % axis.per_word : axis.places[index % axis.per_word];
  return axis.step * word + static_cast<std::uint64_t>(bits) * place;
}

const Byte* BytesOf(const Plane& plane) {
  return reinterpret_cast<const Byte*>(plane.bytes.view().data());
}

// At most eight bits, of two bytes where they end in the next.
std::uint32_t LoadBits(const Byte* bytes, std::uint64_t bit, int count) {
  const Byte* const from = bytes + bit / 8;
  const int at = static_cast<int>(bit % 8);
  std::uint32_t both = *from;
  if (at + count > 8) both |= static_cast<std::uint32_t>(from[1]) << 8;
  return both >> at & ((1u << count) - 1);
}

std::uint32_t LoadAt(const Plane& plane, std::uint64_t bit) {
  if (plane.bits < 8) return LoadBits(BytesOf(plane), bit, plane.bits);
  const Byte* const from = BytesOf(plane) + bit / 8;
  if (plane.bits == 8) return *from;
  std::uint32_t code = from[0] | static_cast<std::uint32_t>(from[1]) << 8;
  if (plane.bits == 32) std::memcpy(&code, from, sizeof code);
  return code;
}

// A code of a word that lies in parts; `line` is in bits.
std::uint32_t LoadFromParts(const Plane& plane, std::uint64_t line, std::uint64_t index) {
  const Axis& axis = plane.k;
  const std::uint64_t in_word = index % axis.per_word * static_cast<std::uint64_t>(plane.bits);
  const std::uint64_t in_part = in_word % kPartBits;
  const std::uint64_t part =
      line + axis.step * (index / axis.per_word) + axis.part_step * (in_word / kPartBits);
  const int here = std::min(plane.bits, static_cast<int>(kPartBits - in_part));
  std::uint32_t code = LoadBits(BytesOf(plane), part + in_part, here);
  if (here < plane.bits) {
    code |= LoadBits(BytesOf(plane), part + axis.part_step, plane.bits - here) << here;
  }
  return code;
}

float ScaleOf(DataType type, std::uint32_t code) {
  switch (type) {
    case DataType::kF16:
      return FromF16(static_cast<std::uint16_t>(code));
    case DataType::kBf16:
      return FromBf16(static_cast<std::uint16_t>(code));
    case DataType::kF32:
      return FloatOf(code);
    default:  // of 8 bits
      return static_cast<float>(DecodeElement(type, code));
  }
}

// The number at `index` of an axis that has pieces; `begin`, in bits, is its place along the other.
std::uint32_t LoadFromPieces(const Plane& plane, const Axis& axis, std::uint64_t begin,
                             std::uint64_t index) {
  const std::uint64_t word = begin + axis.step * (index / axis.per_word);
  std::uint32_t code = 0;
  int above = 0;
  for (const std::uint8_t bits : axis.pieces) {
    const std::uint64_t in_word =
        kPartBits * static_cast<std::uint64_t>(above) + index % axis.per_word * bits;
    const std::uint64_t at = word + axis.part_step * (in_word / kPartBits) + in_word % kPartBits;
    code |= LoadBits(BytesOf(plane), at, bits) << above;
    above += bits;
  }
  return code;
}

// Returns whether indices along K follow each other without gaps.
bool IsDense(const Plane& plane) {
  return plane.k.per_word == 1 && plane.k.step == static_cast<std::uint64_t>(plane.bits);
}

// Returns whether eight codes along K lie together, the first lowest, wherever K is a multiple
// of 8.
bool HasEightTogether(const Plane& plane) {
  if (IsDense(plane)) return true;
  return plane.bits == 4 && plane.k.per_word == kEight && plane.k.places.empty();
}

// Returns whether eight codes along K lie together, the first of two in the high half of a byte.
bool HasEightInSwappedPairs(const Plane& plane) {
  return plane.bits == 4 && plane.k.step == 8 && plane.k.per_word == 2 && !plane.k.places.empty() &&
         plane.k.places[0] == 1;
}

// Decodes a layer into the planes of its format.
class Decoder {
 public:
  Decoder(const Layer& layer, std::uint64_t lines, std::uint64_t k)
      : layer_(layer), format_(*FindQuantFormat(layer.format)), lines_(lines), k_(k) {
    const Scaling& scaling = format_.scaling;
    line_blocks_ =
        static_cast<std::uint64_t>(scaling.line_blocks(static_cast<std::int64_t>(lines)));
    k_blocks_ = static_cast<std::uint64_t>(scaling.k_blocks(static_cast<std::int64_t>(k)));
    block_lines_ = scaling.block_lines == kWhole ? lines : scaling.block_lines;
    block_k_ = scaling.block_k == kWhole ? k : scaling.block_k;
    out_bits_ = SizeBits(format_.element);
    const auto add = [this](std::uint64_t place) {
      places_.push_back(BitsAlong(layer_.codes.k, layer_.codes.bits, place));
    };
    if (layer.k_order != nullptr) {
      std::for_each(layer.k_order->begin(), layer.k_order->end(), add);
      return;
    }
    const std::uint64_t period = std::max(kEight, layer.codes.k.per_word);
    for (std::uint64_t i = 0; i < period; ++i) add(i);
  }

  absl::StatusOr<QuantizedArray> Decode() {
    QuantizedArray array;
    array.format_name = layer_.format;
    array.format = format_;
    array.rows = lines_;
    array.columns = k_;
    array.k_axis = KAxis::kColumns;
    array.k_order = layer_.k_order;
    if (absl::Status s = ReadOverallScale(array.tensor_scale); !s.ok()) return s;
    const std::uint64_t blocks = line_blocks_ * k_blocks_;
    const std::uint64_t scale_bytes =
        blocks * static_cast<std::uint64_t>(SizeBits(format_.scaling.type)) / 8;
    const std::uint64_t zero_bytes = layer_.zero_points ? blocks : 0;
    Buffer scales = Buffer::Allocate(scale_bytes);
    const std::uint64_t offset_bytes = layer_.offsets ? scale_bytes : 0;
    Buffer zeros = Buffer::Allocate(zero_bytes);
    Buffer offsets = Buffer::Allocate(offset_bytes);
    flipped_.resize(blocks);
    lowered_.resize(layer_.fnuz == nullptr ? 0 : blocks);
    absl::Status status = ForEachPart(line_blocks_, [&](const Part& part) {
      return ReadScales(part, {scales.data(), zeros.data(), offsets.data()});
    });
    if (!status.ok()) return status;
    array.scales = std::move(scales).Freeze(scale_bytes);
    array.zero_points = std::move(zeros).Freeze(zero_bytes);
    array.offsets = std::move(offsets).Freeze(offset_bytes);
    if (LieAsTheyAre()) {
      array.codes = layer_.codes.bytes.Part(layer_.codes.bytes.view().substr(0, CodeBytes()));
      return array;
    }
    Buffer codes = Buffer::Allocate(CodeBytes());
    codes.data()[CodeBytes() - 1] = 0;  // half of it may stay over
    lie_in_columns_of_words_ = LieInColumnsOfWords();
    status = ForEachPart(lines_, [&](const Part& part) {
      ReadCodes(part, codes.data());
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    array.codes = std::move(codes).Freeze(CodeBytes());
    return array;
  }

 private:
  std::uint64_t CodeBytes() const {
    return (lines_ * k_ * static_cast<std::uint64_t>(out_bits_) + 7) / 8;
  }

  // Neighbouring lines.
  struct Part {
    std::uint64_t first;
    std::uint64_t last;  // one past it
  };

  // Where what blocks have goes.
  struct Planes {
    char* scales;
    char* zeros;
    char* offsets;
  };

  // Parts on all CPUs: of an even number of lines, so that none shares a byte with another.
  template <typename Body>
  static absl::Status ForEachPart(std::uint64_t lines, const Body& body) {
    std::vector<absl::Status> ends(CeilOfRatio(lines, kPartLines));
    ForEachOnThreads(ends.size(), static_cast<std::size_t>(UsableCpus()), [&](std::size_t i) {
      ends[i] = body(Part{i * kPartLines, std::min(lines, (i + 1) * kPartLines)});
    });
    for (absl::Status& end : ends) {
      if (!end.ok()) return std::move(end);
    }
    return absl::OkStatus();
  }

  absl::Status ReadOverallScale(float& scale) const {
    if (!layer_.overall_scale) return absl::OkStatus();
    const float value = FloatOf(layer_.overall_scale->Load(0, 0));
    scale = layer_.overall_scale_divides ? 1 / value : value;
    if (std::isfinite(value) && std::isfinite(scale)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("it has no form in ", layer_.format, ": its overall scale is ",
                     layer_.overall_scale_divides ? "1 / " : "", value, "; it must be finite"));
  }

  // About the block of the format that has this element.
  absl::Status Refuse(std::uint64_t line, std::uint64_t k, absl::string_view why) const {
    const std::uint64_t first = k / block_k_ * block_k_;
    return absl::InvalidArgumentError(absl::StrCat("the block of row ", line, ", columns ", first,
                                                   " to ", std::min(k_, first + block_k_) - 1,
                                                   " has no form in ", layer_.format, ": ", why));
  }

  static std::uint64_t IndexOf(std::uint64_t at, std::uint64_t block) {
    return block == 0 ? 0 : at / block;
  }

  // Reads a block of all lines before the next one of K: GPTQ and AWQ have neighbouring lines
  // together.
  absl::Status ReadScales(const Part& part, const Planes& to) {
    const LinesOfBlocks scales = FindLines(&layer_.scales, part);
    const LinesOfBlocks zeros =
        FindLines(layer_.zero_points ? &*layer_.zero_points : nullptr, part);
    const LinesOfBlocks offsets =
        FindLines(layer_.offsets ? &layer_.offsets->plane : nullptr, part);
    for (std::uint64_t k_block = 0; k_block < k_blocks_; ++k_block) {
      const std::uint64_t from_k = IndexOf(k_block * block_k_, layer_.block.k);
      const std::uint64_t scale_at = scales.AtK(from_k);
      const std::uint64_t zero_at = zeros.AtK(from_k);
      const std::uint64_t offset_at = offsets.AtK(from_k);
      for (std::uint64_t line_block = part.first; line_block < part.last; ++line_block) {
        const std::uint64_t i = line_block - part.first;
        const Stored stored = {layer_.run == 0 ? scales.Load(i, scale_at) : 0,
                               zeros.Load(i, zero_at), offsets.Load(i, offset_at)};
        if (absl::Status s = ReadScalesOf(line_block, k_block, stored, to); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  // The numbers of a block as the file has them; 0: of a plane that is not there.
  struct Stored {
    std::uint32_t scale;
    std::uint32_t zero_point;
    std::uint32_t offset;
  };

  // Where the numbers of blocks of neighbouring lines lie in a plane, in bits.
  struct LinesOfBlocks {
    const Plane* plane = nullptr;
    std::uint64_t at[kPartLines] = {};

    // Where lines have pieces, indices instead of bits.
    bool are_indices() const { return plane != nullptr && !plane->line.pieces.empty(); }
    std::uint64_t AtK(std::uint64_t index) const {
      if (plane == nullptr || are_indices()) return index;
      return BitsAlong(plane->k, plane->bits, index);
    }
    std::uint32_t Load(std::uint64_t line, std::uint64_t at_k) const {
      if (are_indices()) return plane->Load(at[line], at_k);
      return plane == nullptr ? 0 : LoadAt(*plane, at[line] + at_k);
    }
  };

  // REQUIRES: words of the plane have no parts, as those of codes alone have, but where they have
  // pieces.
  LinesOfBlocks FindLines(const Plane* plane, const Part& part) const {
    LinesOfBlocks lines;
    lines.plane = plane;
    for (std::uint64_t i = 0; plane != nullptr && i < part.last - part.first; ++i) {
      const std::uint64_t line = (part.first + i) * block_lines_;
      const std::uint64_t index = IndexOf(line, layer_.block.lines);
      lines.at[i] = lines.are_indices() ? index : BitsAlong(plane->line, plane->bits, index);
    }
    return lines;
  }

  // The scale of the block at (line, k), in the type of the layer's scales, of what is stored.
  // Where there are runs, that is found here.
  std::uint32_t ScaleAt(std::uint64_t line, std::uint64_t k, std::uint32_t stored) const {
    const std::uint64_t at = layer_.run == 0 ? 0 : (line * k_ + k) / layer_.run;
    const std::uint32_t code = layer_.run == 0 ? stored : layer_.scales.Load(0, at);
    if (layer_.nested) return BitsOf(NestedScale(*layer_.nested, code, at));
    return layer_.scale_factor == 1 ? code : BitsOf(FloatOf(code) * layer_.scale_factor);
  }

  // In binary64, where both are exact or rounded harmlessly, so that no compiler fuses them.
  static float NestedScale(const NestedScales& nested, std::uint32_t code, std::uint64_t at) {
    const double number = FloatOf(nested.table.Load(0, code));
    const double scale = FloatOf(nested.scales.Load(0, at / nested.run));
    const auto product = static_cast<float>(number * scale);
    return static_cast<float>(static_cast<double>(product) + nested.offset);
  }

  // The scale, zero point and offset of a block of the format.
  absl::Status ReadScalesOf(std::uint64_t line_block, std::uint64_t k_block, const Stored& stored,
                            const Planes& out) {
    const std::uint64_t line = line_block * block_lines_;
    const std::uint64_t k = k_block * block_k_;
    const std::uint64_t to = line_block * k_blocks_ + k_block;
    std::uint32_t code = ScaleAt(line, k, stored.scale);
    float value = ScaleOf(layer_.scale_type, code);
    if (IsUnusedNan(code, line, k)) {
      code = 0;
      value = 0;
    }
    if (!std::isfinite(value)) {
      return Refuse(line, k, absl::StrCat("its scale is ", value, "; it must be finite"));
    }
    if (layer_.fnuz != nullptr) {
      if (absl::Status s = ReadFnuzScale(line, k, to, value); !s.ok()) return s;
      code = BitsOf(value);
    }
    if (std::signbit(value) && format_.scaling.type == DataType::kFp8E4M3) {
      flipped_[to] = 1;
      code &= kE4M3Magnitude;
    }
    StoreScale(layer_.fnuz == nullptr ? layer_.scale_type : DataType::kF32, code, value, to,
               out.scales);
    absl::Status status = absl::OkStatus();
    if (layer_.zero_points) status = ReadZeroPoint(line, k, stored.zero_point, out.zeros + to);
    if (layer_.offsets && status.ok()) {
      status = ReadOffset(line, k, stored.offset, value, to, out.offsets);
    }
    return status;
  }

  // Codes of FNUZ are kept, and the scale halved, where none is too large for the element's type;
  // else the block gets the codes of the same values, which the smallest odd ones lack.
  absl::Status ReadFnuzScale(std::uint64_t line, std::uint64_t k, std::uint64_t to, float& scale) {
    const std::uint64_t last = std::min(k_, k + block_k_);
    bool has_top = false;
    bool has_small = false;
    for (std::uint64_t i = k; i < last; ++i) {
      const std::uint32_t code = LoadCode(line, i);
      has_top = has_top || layer_.fnuz->IsTop(code);
      has_small = has_small || !layer_.fnuz->HasValueIn(code);
    }
    if (has_top && has_small) {
      return Refuse(line, k,
                    absl::StrCat("it has codes of ", layer_.fnuz->name, " that are too large for ",
                                 Name(layer_.element),
                                 " and others that are too small; gemm quantize makes it of the "
                                 "f16 or f32 file"));
    }
    lowered_[to] = has_top ? 1 : 0;
    if (has_top) return absl::OkStatus();
    const float half = scale / 2;
    if (half * 2 != scale) {
      return Refuse(line, k, absl::StrCat("its scale is ", scale, ", half of which has no f32"));
    }
    scale = half;
    return absl::OkStatus();
  }

  absl::Status ReadZeroPoint(std::uint64_t line, std::uint64_t k, std::uint32_t stored,
                             char* to) const {
    std::uint32_t zero = stored ^ layer_.zero_flip;
    const std::uint32_t highest = (1u << layer_.codes.bits) - 1;
    if (layer_.zero_points_are_less && zero++ == highest) {
      return Refuse(line, k,
                    absl::StrCat("its zero point less 1 is ", highest, ", which programs read as ",
                                 highest + 1, " or carry over"));
    }
    *to = static_cast<char>(zero);
    return absl::OkStatus();
  }

  // In binary64, which has every product of two f32, and of a difference enough to see whether f32
  // has it. Products by scales of F32 are rounded once, those by others are exact.
  absl::Status ReadOffset(std::uint64_t line, std::uint64_t k, std::uint32_t stored, float scale,
                          std::uint64_t to, char* offsets) const {
    const Offsets& from = *layer_.offsets;
    double offset = ScaleOf(from.type, stored);
    if (!std::isfinite(offset)) {
      return Refuse(line, k, absl::StrCat("its offset is ", offset, "; it must be finite"));
    }
    if (from.kind == OffsetKind::kSubtracted) offset = -offset;
    if (from.kind == OffsetKind::kZeroPoints) offset *= -static_cast<double>(scale);
    if (from.type == DataType::kF32) offset = static_cast<float>(offset);
    if (!std::isfinite(offset)) return Refuse(line, k, "its zero point times scale has no f32");
    const double less = from.kind == OffsetKind::kOfSigned ? 8 * static_cast<double>(scale) : 0;
    const auto value = static_cast<float>(offset - less);
    // A rounded difference does not give back both of its numbers.
    const double exact = value;
    if (exact + less != offset || offset - exact != less) {
      return Refuse(line, k,
                    absl::StrCat("its offset, ", offset, less == 0 ? "" : absl::StrCat(" - ", less),
                                 ", has no f32"));
    }
    StoreScale(DataType::kF32, BitsOf(value), value, to, offsets);
    return absl::OkStatus();
  }

  // The byte 255 of E8M0, NaN, is written for blocks that are all zero, and says nothing there.
  bool IsUnusedNan(std::uint32_t code, std::uint64_t line, std::uint64_t k) const {
    if (layer_.scale_type != DataType::kE8M0 || code != kE8M0Nan) return false;
    for (std::uint64_t i = line; i < std::min(lines_, line + block_lines_); ++i) {
      for (std::uint64_t j = k; j < std::min(k_, k + block_k_); ++j) {
        if (DecodeElement(layer_.element, LoadCode(i, j) ^ layer_.flip) != 0) return false;
      }
    }
    return true;
  }

  // A scale or an offset; `code` is its code of type `from`.
  void StoreScale(DataType from, std::uint32_t code, float value, std::uint64_t to,
                  char* scales) const {
    const DataType type = format_.scaling.type;
    if (type != from) code = EncodeElement(type, value, 0, {}, 0);  // exact
    StoreCode(scales, SizeBits(type), static_cast<std::int64_t>(to), code);
  }

  std::uint32_t SignBit() const { return 1u << (SizeBits(layer_.element) - 1); }

  // The signs of no block turn.
  bool AreUnflipped() const {
    return std::all_of(flipped_.begin(), flipped_.end(),
                       [](Byte is_flipped) { return is_flipped == 0; });
  }

  bool LieAsTheyAre() const {
    const Plane& codes = layer_.codes;
    return codes.bits == out_bits_ && layer_.flip == 0 && layer_.fnuz == nullptr &&
           layer_.k_order == nullptr && IsDense(codes) && codes.line.per_word == 1 &&
           codes.line.step == k_ * static_cast<std::uint64_t>(codes.bits) && AreUnflipped();
  }

  // Returns whether words of the file are what a line has one after another, and neighbouring lines
  // have neighbouring words: GPTQ's codes of 4 and 8 bits are the transposed matrix of such words.
  bool LieInColumnsOfWords() const {
    const Plane& codes = layer_.codes;
    return codes.bits == out_bits_ && (codes.bits == 4 || codes.bits == 8) &&
           codes.line.step == kWordBits && codes.line.per_word == 1 && codes.line.words == 0 &&
           codes.k.per_word * static_cast<std::uint64_t>(codes.bits) == kWordBits &&
           codes.k.places.empty() && codes.k.part_step == 0 && codes.k.step % 8 == 0 &&
           k_ % codes.k.per_word == 0 && AreUnflipped();
  }

  // Lines of LieInColumnsOfWords(), one after another. Rows of words lie a power of two apart as a
  // rule, where a cache holds few of them, so that tiles are read into memory of their own.
  void ReadWords(const Part& part, char* out) const {
    constexpr std::uint64_t kTileWords = 16;
    std::uint32_t tile[kTileWords][kPartLines];
    const std::uint64_t words = k_ / layer_.codes.k.per_word;
    const std::uint64_t lines = part.last - part.first;
    const std::uint64_t step = layer_.codes.k.step / 8;
    const std::uint32_t flips = layer_.flip * (~std::uint32_t{0} / ((1u << out_bits_) - 1));
    const Byte* const from = BytesOf(layer_.codes) + part.first * sizeof(std::uint32_t);
    for (std::uint64_t first = 0; first < words; first += kTileWords) {
      const std::uint64_t count = std::min(kTileWords, words - first);
      for (std::uint64_t i = 0; i < count; ++i) {
        std::memcpy(tile[i], from + (first + i) * step, lines * sizeof(std::uint32_t));
      }
      for (std::uint64_t line = 0; line < lines; ++line) {
        std::uint32_t run[kTileWords];
        for (std::uint64_t i = 0; i < count; ++i) run[i] = tile[i][line] ^ flips;
        std::memcpy(out + (line * words + first) * sizeof(std::uint32_t), run,
                    count * sizeof(std::uint32_t));
      }
    }
  }

  // Codes of a line in the order of K.
  void OrderCodes(const Byte* line, Byte* out) const {
    const std::vector<std::uint32_t>& order = *layer_.k_order;
    if (out_bits_ == 8) {
      for (std::uint64_t k = 0; k < k_; ++k) out[k] = line[order[k]];
      return;
    }
    const auto code = [line](std::uint32_t place) {
      return line[place / 2] >> (place % 2 * 4) & 15;
    };
    for (std::uint64_t k = 0; k < k_; k += 2) {
      out[k / 2] = static_cast<Byte>(code(order[k]) | code(order[k + 1]) << 4);
    }
  }

  void ReadColumnsOfWords(const Part& part, char* out) const {
    const std::uint64_t line_bytes = k_ * static_cast<std::uint64_t>(out_bits_) / 8;
    char* const to = out + part.first * line_bytes;
    if (layer_.k_order == nullptr) return ReadWords(part, to);
    const std::uint64_t lines = part.last - part.first;
    std::vector<char> rows(lines * line_bytes);
    ReadWords(part, rows.data());
    for (std::uint64_t line = 0; line < lines; ++line) {
      OrderCodes(reinterpret_cast<const Byte*>(rows.data() + line * line_bytes),
                 reinterpret_cast<Byte*>(to + line * line_bytes));
    }
  }

  // A stretch of K of all lines before the next one: where neighbouring lines lie in the same cache
  // line, as AWQ's do, it is read once.
  void ReadCodes(const Part& part, char* out) const {
    if (lie_in_columns_of_words_) return ReadColumnsOfWords(part, out);
    const std::uint64_t step = std::min<std::uint64_t>(block_k_, 128);
    const std::uint64_t stretch = RoundUp(std::uint64_t{128}, step);
    for (std::uint64_t k = 0; k < k_; k += stretch) {
      const std::uint64_t last = std::min(k_, k + stretch);
      for (std::uint64_t line = part.first; line < part.last; ++line) {
        for (std::uint64_t first = k; first < last; first += step) {
          ReadRun(line, first, std::min(last, first + step), out);
        }
      }
    }
  }

  // Elements of one line and one block.
  void ReadRun(std::uint64_t line, std::uint64_t first, std::uint64_t last, char* out) const {
    std::uint32_t flip = layer_.flip;
    if (flipped_[line / block_lines_ * k_blocks_ + first / block_k_] != 0) flip ^= SignBit();
    if (layer_.fnuz != nullptr) {
      ReadFnuz(line, first, last, out);
    } else if (layer_.codes.bits != out_bits_ || k_ % kEight != 0) {
      WidenCodes(line, first, last, flip, out);
    } else if (places_.size() > kEight || layer_.k_order != nullptr) {
      out_bits_ == 4 ? GatherCodes<std::uint32_t>(line, first, last, flip, out)
                     : GatherCodes<std::uint64_t>(line, first, last, flip, out);
    } else if (out_bits_ == 4) {
      CopyCodes<std::uint32_t>(line, first, last, flip, out);
    } else {
      CopyCodes<std::uint64_t>(line, first, last, flip, out);
    }
  }

  // The code at that place of the form's K.
  std::uint32_t LoadCode(std::uint64_t line, std::uint64_t k) const {
    return layer_.codes.Load(line, layer_.k_order == nullptr ? k : (*layer_.k_order)[k]);
  }

  // As CopyCodes(), where words hold more than eight codes, or K has an order.
  template <typename Eight>
  void GatherCodes(std::uint64_t line, std::uint64_t first, std::uint64_t last, std::uint32_t flip,
                   char* out) const {
    constexpr int kBits = sizeof(Eight);
    const Eight flips = flip * (~Eight{0} / ((Eight{1} << kBits) - 1));
    const Plane& from = layer_.codes;
    const std::uint64_t begin = BitsAlong(from.line, from.bits, line);
    char* to = out + (line * k_ + first) * kBits / 8;
    for (std::uint64_t k = first; k < last; k += kEight, to += sizeof(Eight)) {
      const std::uint64_t word = begin + k / places_.size() * from.k.step;
      const std::uint64_t* const places = &places_[k % places_.size()];
      Eight codes = 0;
      for (std::uint64_t i = 0; i < kEight; ++i) {
        codes |= Eight{LoadAt(from, word + places[i])} << (i * kBits);
      }
      codes ^= flips;
      std::memcpy(to, &codes, sizeof codes);
    }
  }

  // Eight codes at a time, which are one number of that type, of 4 or 8 bits each: `first` and
  // `last` are multiples of 8.
  template <typename Eight>
  void CopyCodes(std::uint64_t line, std::uint64_t first, std::uint64_t last, std::uint32_t flip,
                 char* out) const {
    constexpr int kBits = sizeof(Eight);
    const Eight flips = flip * (~Eight{0} / ((Eight{1} << kBits) - 1));  // each of the eight
    const Plane& from = layer_.codes;
    const bool together = HasEightTogether(from);
    const bool are_swapped = HasEightInSwappedPairs(from);
    constexpr Eight kLow = ~Eight{0} / 0xff * 0xf;  // halves of bytes
    // Words hold 1, 2, 4 or 8 codes here, so that the next eight are as far as these from the
    // first.
    const std::uint64_t to_next = BitsAlong(from.k, from.bits, kEight) - places_[0];
    std::uint64_t at = BitsAlong(from.line, from.bits, line) + first / kEight * to_next;
    char* to = out + (line * k_ + first) * kBits / 8;
    for (std::uint64_t k = first; k < last; k += kEight, at += to_next, to += sizeof(Eight)) {
      Eight codes = 0;
      if (together || are_swapped) {
        std::memcpy(&codes, BytesOf(from) + at / 8, sizeof codes);
        if (are_swapped) codes = (codes & kLow) << 4 | (codes >> 4 & kLow);
      } else {
        for (std::uint64_t i = 0; i < kEight; ++i) {
          codes |= Eight{LoadAt(from, at + places_[i])} << (i * kBits);
        }
      }
      codes ^= flips;
      std::memcpy(to, &codes, sizeof codes);
    }
  }

  void ReadFnuz(std::uint64_t line, std::uint64_t first, std::uint64_t last, char* out) const {
    const bool is_lowered = lowered_[line / block_lines_ * k_blocks_ + first / block_k_] != 0;
    for (std::uint64_t k = first; k < last; ++k) {
      const std::uint32_t code = LoadCode(line, k);
      out[line * k_ + k] = static_cast<char>(is_lowered ? layer_.fnuz->SameValue(code)
                                                        : layer_.fnuz->TwiceValue(code));
    }
  }

  void WidenCodes(std::uint64_t line, std::uint64_t first, std::uint64_t last, std::uint32_t flip,
                  char* out) const {
    const bool is_signed = IsQuantizedInteger(layer_.element) && RangeOf(layer_.element).lowest < 0;
    const std::uint32_t element_mask = 2 * SignBit() - 1;
    for (std::uint64_t k = first; k < last; ++k) {
      std::uint32_t code = LoadCode(line, k) ^ flip;
      if (is_signed) {
        code = ((code & element_mask) ^ SignBit()) - SignBit();  // in two's complement of 32 bits
        code &= (1u << out_bits_) - 1;
      }
      StoreCode(out, out_bits_, static_cast<std::int64_t>(line * k_ + k), code);
    }
  }

  const Layer& layer_;
  const QuantFormat& format_;
  const std::uint64_t lines_;
  const std::uint64_t k_;
  std::uint64_t line_blocks_ = 0;
  std::uint64_t k_blocks_ = 0;
  std::uint64_t block_lines_ = 0;
  std::uint64_t block_k_ = 0;
  int out_bits_ = 0;
  // In bits, of codes along K from the first: of eight, of a word that has more, or of all, in
  // their order.
  std::vector<std::uint64_t> places_;
  // By block of the format: 1 where a scale of E4M3 is below zero. Servers take none, so that the
  // signs of the block's elements turn.
  std::vector<Byte> flipped_;
  std::vector<Byte> lowered_;  // by block too, of FNUZ: 1 where codes become those of their values
  bool lie_in_columns_of_words_ = false;
};

}  // namespace

std::uint32_t Plane::Load(std::uint64_t line_index, std::uint64_t k_index) const {
  if (!line.pieces.empty()) {
    return LoadFromPieces(*this, line, BitsAlong(k, bits, k_index), line_index);
  }
  const std::uint64_t at = BitsAlong(line, bits, line_index);
  if (!k.pieces.empty()) return LoadFromPieces(*this, k, at, k_index);
  if (k.part_step != 0) return LoadFromParts(*this, at, k_index);
  return LoadAt(*this, at + BitsAlong(k, bits, k_index));
}

Plane PlaneOfLines(const Bytes& bytes, int bits, std::uint64_t columns) {
  Plane plane;
  plane.bytes = bytes;
  plane.bits = bits;
  plane.line.step = columns * static_cast<std::uint64_t>(bits);
  plane.k.step = static_cast<std::uint64_t>(bits);
  return plane;
}

Plane PlaneOfTiles(const Bytes& bytes, std::uint64_t columns) {
  constexpr std::uint64_t kTileScales = kTileLines * kTileColumns;
  Plane plane = PlaneOfLines(bytes, 8, columns);
  plane.line.step = CeilOfRatio(columns, kTileColumns) * kTileScales * 8;
  plane.line.per_word = kTileLines;
  for (std::uint64_t i = 0; i < kTileLines; ++i) {
    const std::uint64_t place = i % kTileRows * (kTileScales / kTileRows);
    plane.line.places.push_back(static_cast<std::uint16_t>(place + i / kTileRows * kTileColumns));
  }
  plane.k.step = kTileScales * 8;
  plane.k.per_word = kTileColumns;
  return plane;
}

std::vector<std::uint64_t> ShapeOfTiles(std::uint64_t lines, std::uint64_t columns) {
  return {RoundUp(lines, kTileLines), RoundUp(columns, kTileColumns)};
}

std::vector<const Plane*> PlanesOf(const Layer& layer) {
  std::vector<const Plane*> planes = {&layer.codes, &layer.scales};
  if (layer.nested) planes.insert(planes.end(), {&layer.nested->table, &layer.nested->scales});
  if (layer.zero_points) planes.push_back(&*layer.zero_points);
  if (layer.offsets) planes.push_back(&layer.offsets->plane);
  if (layer.overall_scale) planes.push_back(&*layer.overall_scale);
  return planes;
}

Layer PartOf(const Layer& layer, std::uint64_t index) {
  Layer part = layer;
  part.parts = 0;
  part.file_bytes = 0;
  const auto cut = [index, &layer, &part](Plane& plane) {
    const absl::string_view all = plane.bytes.view();
    if (plane.part_bytes != 0) {
      plane.bytes = plane.bytes.Part(all.substr(index * plane.part_bytes, plane.part_bytes));
    }
    part.file_bytes += plane.part_bytes != 0 ? plane.part_bytes : all.size() / layer.parts;
  };
  cut(part.codes);
  cut(part.scales);
  if (part.zero_points) cut(*part.zero_points);
  if (part.offsets) cut(part.offsets->plane);
  if (part.overall_scale) cut(*part.overall_scale);
  return part;
}

absl::StatusOr<QuantizedArray> DecodeLayer(const Layer& layer, std::uint64_t lines,
                                           std::uint64_t k) {
  return Decoder(layer, lines, k).Decode();
}

}  // namespace gemmd::client
