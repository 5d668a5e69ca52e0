// Decoders of GGUF's quantized types, block by block. gguf_blocks.h has the layouts of those with
// few elements, gguf_k_decoders.cc the others.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace gemmd::client::gguf {

using Byte = std::uint8_t;

// The planes of the format, where what comes of a block of GGUF belongs; null where the format has
// no such plane.
struct Out {
  Byte* codes;
  Byte* scales;
  Byte* offsets;
};

// Why a block has no form, if it has none.
using Refusal = std::optional<std::string>;
using Decode = Refusal (*)(const Byte* block, const Out& out);

// Null: the type is not quantized, or has no form.
Decode DecoderOf(absl::string_view type);

float LoadF16(const Byte* from);
// One f32 of a plane.
void StoreF32(float value, int index, Byte* plane);
// Two codes of 4 bits a byte, the first in the low half. REQUIRES: an even count.
void PackPairs(const Byte* codes, int count, Byte* packed);

// Packs 2 * kHalf codes as PackPairs() does, from halves: byte j has code j in its low half and
// code j + kHalf in the high one. Loops over words in arrays of their own become vectors.
template <int kHalf>
void PackHalves(const Byte* from, Byte* packed) {
  std::uint16_t words[kHalf / 2];
  std::memcpy(words, from, kHalf);
  Byte low[kHalf / 2];
  Byte high[kHalf / 2];
  for (int i = 0; i < kHalf / 2; ++i) {
    const unsigned word = words[i];
    low[i] = static_cast<Byte>((word & 0x0f) | (word >> 4 & 0xf0));
    high[i] = static_cast<Byte>((word >> 4 & 0x0f) | (word >> 8 & 0xf0));
  }
  std::memcpy(packed, low, sizeof low);
  std::memcpy(packed + sizeof low, high, sizeof high);
}

// A refusal where one is infinite or no number.
Refusal CheckScale(float scale);
Refusal CheckOffset(float offset);

// The types of gguf_k_decoders.cc.

Refusal DecodeQ2K(const Byte* block, const Out& out);
Refusal DecodeQ3K(const Byte* block, const Out& out);
Refusal DecodeQ4K(const Byte* block, const Out& out);
Refusal DecodeQ5K(const Byte* block, const Out& out);
Refusal DecodeQ6K(const Byte* block, const Out& out);
Refusal DecodeTq1(const Byte* block, const Out& out);
Refusal DecodeTq2(const Byte* block, const Out& out);

}  // namespace gemmd::client::gguf
