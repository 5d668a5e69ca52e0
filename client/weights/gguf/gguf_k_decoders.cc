// Types whose blocks have 256 elements, in groups of 16 or 32 that have a small integer each. Times
// the block's f16 that is a group's scale, or the offset's magnitude: at most 17 bits, so that f32
// holds it. Source: ggml-quants.c; bits lie as its functions dequantize_row_* read them.
//
//   Q2_K   a byte for each 16, the scale in its low half, the offset in the high one; 2 bits an
//          element; d, dmin
//   Q3_K   the third bit of each element, 2 bits an element, 16 scales of 6 bits less 32, d
//   Q4_K   d, dmin, 8 scales and 8 offsets of 6 bits, 4 bits an element
//   Q5_K   the same, with a fifth bit of each element before the four
//   Q6_K   4 bits an element, 2 bits an element, 16 scales of int8, d; codes less 32
//   TQ1_0  five elements a byte as digits of a fraction to the base of 3, then four a byte; d
//   TQ2_0  2 bits an element, d; codes less 1
//
// Elements of 2 bits of Q2_K and Q3_K: byte 32 n + 16 h + l has those of the groups 8 n + 2 j + h,
// j from the lowest bits up.
#include <cstddef>
#include <cstring>

#include "client/weights/gguf/gguf_decoders.h"

namespace gemmd::client::gguf {
namespace {

constexpr int kElements = 256;
constexpr int kGroups16 = 16;  // of 16 elements
constexpr int kGroups32 = 8;   // of 32

// A code of two's complement in 4 bits.
Byte Nibble(int code) { return static_cast<Byte>(code & 15); }

// d times each integer as scales, and dmin times each of the others as what is taken away.
Refusal StoreNumbers(float d, float dmin, const Byte* scales, const Byte* offsets, int groups,
                     const Out& out) {
  if (Refusal refusal = CheckScale(d)) return refusal;
  if (Refusal refusal = CheckOffset(dmin)) return refusal;
  for (int i = 0; i < groups; ++i) {
    StoreF32(d * static_cast<float>(scales[i]), i, out.scales);
    StoreF32(-(dmin * static_cast<float>(offsets[i])), i, out.offsets);
  }
  return std::nullopt;
}

// Scales and offsets of Q4_K and Q5_K: six bits each in 12 bytes.
void SplitSixBits(const Byte* packed, Byte* scales, Byte* offsets) {
  for (int i = 0; i < 4; ++i) {
    scales[i] = packed[i] & 63;
    offsets[i] = packed[i + 4] & 63;
    scales[i + 4] = static_cast<Byte>((packed[i + 8] & 15) | packed[i] >> 6 << 4);
    offsets[i + 4] = static_cast<Byte>(packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
  }
}

// Elements of five bits: of each 32 bytes the low halves, then the high ones; and the fifth bits of
// elements 32 apart in one byte. Loops over 32 in arrays of their own, which compilers make vectors
// of, here and below.
void SplitLongHalves(const Byte* packed, const Byte* fifth, Byte* codes) {
  for (int group = 0; group < kGroups32; ++group) {
    Byte bytes[32];
    Byte bits[32];
    std::memcpy(bytes, packed + static_cast<std::ptrdiff_t>(group / 2 * 32), 32);
    std::memcpy(bits, fifth, 32);
    const int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      bytes[i] = static_cast<Byte>((bytes[i] >> shift & 15) | (bits[i] >> group & 1) << 4);
    }
    std::memcpy(codes + static_cast<std::ptrdiff_t>(group * 32), bytes, 32);
  }
}

// The place of element i of Q2_K and Q3_K.
struct TwoBits {
  int byte;
  int shift;
};
TwoBits PlaceOf(int i) { return {i / 128 * 32 + i % 32, i / 32 % 4 * 2}; }

// Values of -1 to 2 with the f16 of the whole block.
Refusal StoreTernary(const int* values, const Byte* d, const Out& out) {
  if (Refusal refusal = CheckScale(LoadF16(d))) return refusal;
  Byte codes[kElements];
  for (int i = 0; i < kElements; ++i) codes[i] = Nibble(values[i]);
  PackPairs(codes, kElements, out.codes);
  for (int i = 0; i < 4; ++i) out.scales[i] = d[i % 2];  // of both groups of 128
  return std::nullopt;
}

}  // namespace

Refusal DecodeQ2K(const Byte* block, const Out& out) {
  const Byte* const bits = block + kGroups16;
  Byte scales[kGroups16];
  Byte offsets[kGroups16];
  for (int i = 0; i < kGroups16; ++i) {
    scales[i] = block[i] & 15;
    offsets[i] = block[i] >> 4;
  }
  Byte codes[kElements];
  for (int i = 0; i < kElements; ++i) {
    const TwoBits place = PlaceOf(i);
    codes[i] = bits[place.byte] >> place.shift & 3;
  }
  PackPairs(codes, kElements, out.codes);
  return StoreNumbers(LoadF16(bits + 64), LoadF16(bits + 66), scales, offsets, kGroups16, out);
}

Refusal DecodeQ3K(const Byte* block, const Out& out) {
  const Byte* const bits = block + 32;
  const Byte* const packed = bits + 64;
  const float d = LoadF16(packed + 12);
  if (Refusal refusal = CheckScale(d)) return refusal;
  for (int i = 0; i < kGroups16; ++i) {
    const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
    const int high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
    StoreF32(d * static_cast<float>((low | high << 4) - 32), i, out.scales);
  }
  Byte codes[kElements];
  for (int i = 0; i < kElements; ++i) {
    const TwoBits place = PlaceOf(i);
    const int third = block[i % 32] >> (i / 32) & 1;
    codes[i] = Nibble((bits[place.byte] >> place.shift & 3) - (third == 0 ? 4 : 0));
  }
  PackPairs(codes, kElements, out.codes);
  return std::nullopt;
}

Refusal DecodeQ4K(const Byte* block, const Out& out) {
  Byte scales[kGroups32];
  Byte offsets[kGroups32];
  SplitSixBits(block + 4, scales, offsets);
  // Halves of 32 bytes each.
  for (int at = 0; at < kElements / 2; at += 32) PackHalves<32>(block + 16 + at, out.codes + at);
  return StoreNumbers(LoadF16(block), LoadF16(block + 2), scales, offsets, kGroups32, out);
}

Refusal DecodeQ5K(const Byte* block, const Out& out) {
  Byte scales[kGroups32];
  Byte offsets[kGroups32];
  SplitSixBits(block + 4, scales, offsets);
  const Byte* const fifth = block + 16;
  SplitLongHalves(block + 48, fifth, out.codes);
  return StoreNumbers(LoadF16(block), LoadF16(block + 2), scales, offsets, kGroups32, out);
}

Refusal DecodeQ6K(const Byte* block, const Out& out) {
  const Byte* const two_bits = block + 128;
  const Byte* const scales = block + 192;
  const float d = LoadF16(block + 208);
  if (Refusal refusal = CheckScale(d)) return refusal;
  for (int i = 0; i < kGroups16; ++i) {
    StoreF32(d * static_cast<float>(static_cast<std::int8_t>(scales[i])), i, out.scales);
  }
  for (int group = 0; group < kGroups32; ++group) {
    const int part = group / 4;  // of 128 elements
    Byte bytes[32];
    Byte bits[32];
    std::memcpy(bytes, block + static_cast<std::ptrdiff_t>(64 * part + group % 2 * 32), 32);
    std::memcpy(bits, two_bits + static_cast<std::ptrdiff_t>(32 * part), 32);
    const int shift = group % 4 / 2 * 4;
    const int high_shift = group % 4 * 2;
    for (int i = 0; i < 32; ++i) {
      const int high = (bits[i] >> high_shift & 3) << 4;
      bytes[i] = static_cast<Byte>(((bytes[i] >> shift & 15) | high) - 32);
    }
    std::memcpy(out.codes + static_cast<std::ptrdiff_t>(group * 32), bytes, 32);
  }
  return std::nullopt;
}

Refusal DecodeTq1(const Byte* block, const Out& out) {
  constexpr int kPowers[] = {1, 3, 9, 27, 81};
  int values[kElements];
  int next = 0;
  // The digit after the point of byte * 3^n / 256, to the base of 3.
  const auto read = [&](const Byte* bytes, int count, int digits) {
    for (int n = 0; n < digits; ++n) {
      for (int j = 0; j < count; ++j) values[next++] = (bytes[j] * kPowers[n] % 256 * 3 >> 8) - 1;
    }
  };
  read(block, 32, 5);
  read(block + 32, 16, 5);
  read(block + 48, 4, 4);
  return StoreTernary(values, block + 52, out);
}

Refusal DecodeTq2(const Byte* block, const Out& out) {
  int values[kElements];
  for (int i = 0; i < kElements; ++i) {
    const TwoBits place = PlaceOf(i);
    values[i] = (block[place.byte] >> place.shift & 3) - 1;
  }
  return StoreTernary(values, block + 64, out);
}

}  // namespace gemmd::client::gguf
