#include "client/weights/gguf_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/numbers/float_bits.h"
#include "base/process/cpu_share.h"
#include "base/sync/thread_loop.h"
#include "client/bytes.h"

namespace gemmd::client {
namespace {

using Byte = std::uint8_t;

// The planes of the format, where what comes of a block of GGUF belongs.
struct Out {
  Byte* codes;
  Byte* scales;
  Byte* zero_points;
};

// Why a block has no form, if it has none.
using Refusal = std::optional<std::string>;
using Decode = Refusal (*)(const Byte* block, const Out& out);

std::uint16_t LoadU16(const Byte* from) {
  return static_cast<std::uint16_t>(from[0] | from[1] << 8);
}

Refusal CheckScale(float scale) {
  if (std::isfinite(scale)) return std::nullopt;
  return absl::StrCat("its scale is ", scale, "; it must be finite");
}

// Two halves of 16 to 32 codes in their order.
void SplitHalves(const Byte* packed, Byte* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = packed[j] & 15;
    codes[j + 16] = packed[j] >> 4;
  }
}

void PackPairs(const Byte* codes, int count, Byte* packed) {
  for (int i = 0; i < count; i += 2) {
    packed[i / 2] = static_cast<Byte>(codes[i] | codes[i + 1] << 4);
  }
}

// 32 codes of int8 and a scale of f32, which becomes positive: so each code's sign turns with it.
Refusal StoreSigned(const int* codes, float scale, Byte* to_codes, Byte* to_scale) {
  if (Refusal refusal = CheckScale(scale)) return refusal;
  const int sign = scale < 0 ? -1 : 1;
  for (int i = 0; i < 32; ++i) {
    const int code = sign * codes[i];
    if (code > 127) {
      return absl::StrCat("its code -128 and its scale ", scale,
                          ", below zero, need the code 128; int8 ends at 127");
    }
    to_codes[i] = static_cast<Byte>(code);
  }
  const float magnitude = std::abs(scale);
  std::memcpy(to_scale, &magnitude, sizeof magnitude);
  return std::nullopt;
}

Refusal DecodeQ8_0(const Byte* block, const Out& out) {
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = block[2 + i] - (block[2 + i] < 128 ? 0 : 256);
  return StoreSigned(codes, FromF16(LoadU16(block)), out.codes, out.scales);
}

Refusal DecodeQ5_0(const Byte* block, const Out& out) {
  Byte low[32];
  SplitHalves(block + 6, low);
  int codes[32];
  for (int i = 0; i < 32; ++i) {
    const int high = block[2 + i / 8] >> (i % 8) & 1;
    codes[i] = (low[i] | high << 4) - 16;
  }
  return StoreSigned(codes, FromF16(LoadU16(block)), out.codes, out.scales);
}

Refusal DecodeQ4_0(const Byte* block, const Out& out) {
  const std::uint16_t scale = LoadU16(block);
  if (Refusal refusal = CheckScale(FromF16(scale))) return refusal;
  const bool is_negative = scale >> 15 != 0;
  Byte codes[32];
  SplitHalves(block + 2, codes);
  if (is_negative) {
    for (Byte& code : codes) code = static_cast<Byte>(15 - code);
  }
  PackPairs(codes, 32, out.codes);
  out.scales[0] = static_cast<Byte>(scale);
  out.scales[1] = static_cast<Byte>(scale >> 8 & 0x7f);
  out.zero_points[0] = is_negative ? 7 : 8;
  return std::nullopt;
}

constexpr int kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};

void SplitNonLinear(const Byte* packed, int* values) {
  Byte codes[32];
  SplitHalves(packed, codes);
  for (int i = 0; i < 32; ++i) values[i] = kNonLinear[codes[i]];
}

Refusal DecodeIq4Nl(const Byte* block, const Out& out) {
  int codes[32];
  SplitNonLinear(block + 2, codes);
  return StoreSigned(codes, FromF16(LoadU16(block)), out.codes, out.scales);
}

Refusal DecodeIq4Xs(const Byte* block, const Out& out) {
  const float d = FromF16(LoadU16(block));
  const int high = LoadU16(block + 2);
  for (int part = 0; part < 8; ++part) {
    const int low = block[4 + part / 2] >> (part % 2 * 4) & 15;
    const int scale = (low | (high >> (2 * part) & 3) << 4) - 32;
    int codes[32];
    SplitNonLinear(block + 8 + static_cast<std::ptrdiff_t>(16 * part), codes);
    // Exact: 11 bits times 6.
    if (Refusal refusal =
            StoreSigned(codes, d * static_cast<float>(scale),
                        out.codes + static_cast<std::ptrdiff_t>(32 * part),
                        out.scales + static_cast<std::ptrdiff_t>(sizeof(float)) * part)) {
      return refusal;
    }
  }
  return std::nullopt;
}

// A block of tiny elements gets the byte 255 of gguf 0.19.0, as -1 in 8 bits, and zeros for codes.
// The standard reads 255 as NaN and ggml as 2^127; zeros are meant.
Refusal DecodeMxfp4(const Byte* block, const Out& out) {
  Byte codes[32];
  SplitHalves(block + 1, codes);
  PackPairs(codes, 32, out.codes);
  out.scales[0] = block[0];
  if (block[0] != 0xff) return std::nullopt;
  out.scales[0] = 0;
  if (std::all_of(codes, codes + 32, [](Byte code) { return (code & 7) == 0; })) {
    return std::nullopt;
  }
  return "its scale is the byte 255, NaN, and not all of its codes are zero";
}

Refusal DecodeNvfp4(const Byte* block, const Out& out) {
  for (int part = 0; part < 4; ++part) {
    if (block[part] > 0x7e) {
      return absl::StrFormat(
          "its scale is the byte %#x, which is no positive number of E4M3; 0 to 0x7e are accepted",
          block[part]);
    }
    out.scales[part] = block[part];
    Byte codes[16];
    for (int j = 0; j < 8; ++j) {
      codes[j] = block[4 + 8 * part + j] & 15;
      codes[j + 8] = block[4 + 8 * part + j] >> 4;
    }
    PackPairs(codes, 16, out.codes + static_cast<std::ptrdiff_t>(8 * part));
  }
  return std::nullopt;
}

Decode DecoderOf(absl::string_view type) {
  if (type == "Q8_0") return DecodeQ8_0;
  if (type == "Q5_0") return DecodeQ5_0;
  if (type == "Q4_0") return DecodeQ4_0;
  if (type == "IQ4_NL") return DecodeIq4Nl;
  if (type == "IQ4_XS") return DecodeIq4Xs;
  if (type == "MXFP4") return DecodeMxfp4;
  return type == "NVFP4" ? DecodeNvfp4 : nullptr;
}

}  // namespace

absl::StatusOr<QuantizedArray> DecodeGgufBlocks(const GgufType& type, std::uint64_t lines,
                                                std::uint64_t k, absl::string_view bytes) {
  QuantizedArray array;
  array.format_name = std::string(type.format);
  array.format = *FindQuantFormat(type.format);
  array.rows = lines;
  array.columns = k;
  array.k_axis = KAxis::kColumns;

  // K is whole blocks, and they are whole ones of the format: all planes follow each other.
  const Scaling& scaling = array.format.scaling;
  const std::uint64_t elements = type.block_elements;
  const std::uint64_t blocks_of_line = k / elements;
  const std::uint64_t blocks = lines * blocks_of_line;
  const std::uint64_t codes_of_block =
      elements * static_cast<std::uint64_t>(SizeBits(array.format.element)) / 8;
  const std::uint64_t places_of_block = elements / scaling.block_k;
  const std::uint64_t scales_of_block =
      places_of_block * static_cast<std::uint64_t>(SizeBits(scaling.type)) / 8;
  const std::uint64_t zeros_of_block = scaling.has_zero_points ? places_of_block : 0;
  Buffer codes = Buffer::Allocate(blocks * codes_of_block);
  Buffer scales = Buffer::Allocate(blocks * scales_of_block);
  Buffer zeros = Buffer::Allocate(blocks * zeros_of_block);
  const auto at = [](const Buffer& buffer, std::uint64_t offset) {
    return reinterpret_cast<Byte*>(buffer.data()) + offset;
  };

  constexpr std::uint64_t kPart = 1 << 16;  // less takes about as long as to start a thread
  const std::uint64_t count = (blocks + kPart - 1) / kPart;
  std::vector<absl::Status> ends(count);
  const Decode decode = DecoderOf(type.name);
  ForEachOnThreads(count, static_cast<std::size_t>(UsableCpus()), [&](std::size_t part) {
    const std::uint64_t last = std::min(blocks, (part + 1) * kPart);
    for (std::uint64_t i = part * kPart; i < last; ++i) {
      const auto* block = reinterpret_cast<const Byte*>(bytes.data()) + i * type.block_bytes;
      const Refusal refusal =
          decode(block, {at(codes, i * codes_of_block), at(scales, i * scales_of_block),
                         at(zeros, i * zeros_of_block)});
      if (!refusal) continue;
      const std::uint64_t first = i % blocks_of_line * elements;
      ends[part] = absl::InvalidArgumentError(
          absl::StrCat("the block of row ", i / blocks_of_line, ", columns ", first, " to ",
                       first + elements - 1, " has no form in ", type.format, ": ", *refusal));
      return;
    }
  });
  for (absl::Status& end : ends) {
    if (!end.ok()) return std::move(end);
  }
  array.codes = std::move(codes).Freeze(blocks * codes_of_block);
  array.scales = std::move(scales).Freeze(blocks * scales_of_block);
  array.zero_points = std::move(zeros).Freeze(blocks * zeros_of_block);
  return array;
}

}  // namespace gemmd::client
