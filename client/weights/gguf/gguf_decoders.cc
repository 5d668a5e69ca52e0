#include "client/weights/gguf/gguf_decoders.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/numbers/float_bits.h"

namespace gemmd::client::gguf {
namespace {

// Two halves of 16 to 32 codes in their order.
void SplitHalves(const Byte* packed, Byte* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = packed[j] & 15;
    codes[j + 16] = packed[j] >> 4;
  }
}

// Codes of 5 bits: the fifth bits of all 32 come first.
void SplitFiveBits(const Byte* packed, Byte* codes) {
  SplitHalves(packed + 4, codes);
  for (int i = 0; i < 32; ++i) {
    codes[i] = static_cast<Byte>(codes[i] | (packed[i / 8] >> (i % 8) & 1) << 4);
  }
}

Refusal DecodeQ8_0(const Byte* block, const Out& out) {
  const float d = LoadF16(block);
  StoreF32(d, 0, out.scales);
  std::memcpy(out.codes, block + 2, 32);
  return CheckScale(d);
}

Refusal DecodeQ5_0(const Byte* block, const Out& out) {
  const float d = LoadF16(block);
  StoreF32(d, 0, out.scales);
  SplitFiveBits(block + 2, out.codes);
  for (int i = 0; i < 32; ++i) out.codes[i] = static_cast<Byte>(out.codes[i] - 16);
  return CheckScale(d);
}

Refusal DecodeQ5_1(const Byte* block, const Out& out) {
  const float d = LoadF16(block);
  const float m = LoadF16(block + 2);
  StoreF32(d, 0, out.scales);
  StoreF32(m, 0, out.offsets);
  SplitFiveBits(block + 4, out.codes);
  if (Refusal refusal = CheckScale(d)) return refusal;
  return CheckOffset(m);
}

Refusal DecodeQ4_0(const Byte* block, const Out& out) {
  std::memcpy(out.scales, block, 2);
  PackHalves<16>(block + 2, out.codes);
  for (int i = 0; i < 16; ++i) out.codes[i] ^= 0x88;  // less 8, in two's complement
  return CheckScale(LoadF16(block));
}

Refusal DecodeQ4_1(const Byte* block, const Out& out) {
  std::memcpy(out.scales, block, 2);
  std::memcpy(out.offsets, block + 2, 2);
  PackHalves<16>(block + 4, out.codes);
  if (Refusal refusal = CheckScale(LoadF16(block))) return refusal;
  return CheckOffset(LoadF16(block + 2));
}

// The table is that of iq4_nl, so that codes stay as they are.
Refusal DecodeIq4Nl(const Byte* block, const Out& out) {
  std::memcpy(out.scales, block, 2);
  PackHalves<16>(block + 2, out.codes);
  return CheckScale(LoadF16(block));
}

Refusal DecodeIq4Xs(const Byte* block, const Out& out) {
  const float d = LoadF16(block);
  const int high = block[2] | block[3] << 8;
  for (int part = 0; part < 8; ++part) {
    const int low = block[4 + part / 2] >> (part % 2 * 4) & 15;
    const int scale = (low | (high >> (2 * part) & 3) << 4) - 32;
    StoreF32(d * static_cast<float>(scale), part, out.scales);  // exact: 11 bits times 6
    const std::ptrdiff_t at = std::ptrdiff_t{16} * part;
    PackHalves<16>(block + 8 + at, out.codes + at);
  }
  return CheckScale(d);
}

// A block of tiny elements gets the byte 255 of gguf 0.19.0, as -1 in 8 bits, and zeros for codes.
// The standard reads 255 as NaN and ggml as 2^127; zeros are meant.
Refusal DecodeMxfp4(const Byte* block, const Out& out) {
  PackHalves<16>(block + 1, out.codes);
  out.scales[0] = block[0];
  if (block[0] != 0xff) return std::nullopt;
  out.scales[0] = 0;
  if (std::all_of(block + 1, block + 17, [](Byte both) { return (both & 0x77) == 0; })) {
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
    const std::ptrdiff_t at = std::ptrdiff_t{8} * part;
    PackHalves<8>(block + 4 + at, out.codes + at);
  }
  return std::nullopt;
}

}  // namespace

float LoadF16(const Byte* from) {
  return FromF16(static_cast<std::uint16_t>(from[0] | from[1] << 8));
}

void StoreF32(float value, int index, Byte* plane) {
  std::memcpy(plane + static_cast<std::size_t>(index) * sizeof value, &value, sizeof value);
}

void PackPairs(const Byte* codes, int count, Byte* packed) {
  for (int i = 0; i < count; i += 2) {
    packed[i / 2] = static_cast<Byte>(codes[i] | codes[i + 1] << 4);
  }
}

Refusal CheckScale(float scale) {
  if (std::isfinite(scale)) return std::nullopt;
  return absl::StrCat("its scale is ", scale, "; it must be finite");
}

Refusal CheckOffset(float offset) {
  if (std::isfinite(offset)) return std::nullopt;
  return absl::StrCat("its offset is ", offset, "; it must be finite");
}

Decode DecoderOf(absl::string_view type) {
  static constexpr std::pair<absl::string_view, Decode> kDecoders[] = {
      {"Q4_0", DecodeQ4_0},   {"Q4_1", DecodeQ4_1},    {"Q5_0", DecodeQ5_0},
      {"Q5_1", DecodeQ5_1},   {"Q8_0", DecodeQ8_0},    {"Q2_K", DecodeQ2K},
      {"Q3_K", DecodeQ3K},    {"Q4_K", DecodeQ4K},     {"Q5_K", DecodeQ5K},
      {"Q6_K", DecodeQ6K},    {"IQ4_NL", DecodeIq4Nl}, {"IQ4_XS", DecodeIq4Xs},
      {"MXFP4", DecodeMxfp4}, {"NVFP4", DecodeNvfp4},  {"TQ1_0", DecodeTq1},
      {"TQ2_0", DecodeTq2},
  };
  for (const auto& [name, decode] : kDecoders) {
    if (name == type) return decode;
  }
  return nullptr;
}

}  // namespace gemmd::client::gguf
