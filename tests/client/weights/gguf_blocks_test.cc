#include "client/weights/gguf/gguf_blocks.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

const GgufType& TypeOf(absl::string_view name) {
  for (const GgufType& type : GgufTypes()) {
    if (type.name == name) return type;
  }
  ADD_FAILURE() << name;
  return GgufTypes()[0];
}

// The values of each type in ggml's words, one element at a time.

double Half(const std::uint8_t* at) {
  const int bits = at[0] | at[1] << 8;
  const int exponent = bits >> 10 & 31;
  const double fraction = (bits & 1023) / 1024.0;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return bits >> 15 == 0 ? magnitude : -magnitude;
}

// One of 32 elements: the low halves of 16 bytes come first, then the high ones.
int Nibble(const std::uint8_t* codes, int i) { return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4; }

double E2m1(int code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) == 0 ? kValues[code & 7] : -kValues[code & 7];
}

int NonLinear(int code) {
  constexpr std::array<int, 16> kValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};
  return kValues.at(static_cast<std::size_t>(code));
}

// One of 256 elements of 2 bits: four groups of 32 in each 32 bytes.
int TwoBits(const std::uint8_t* bits, int i) {
  return bits[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// One of 256 elements of 4 bits: two groups of 32 in each 32 bytes.
int LongNibble(const std::uint8_t* codes, int i) {
  const int byte = codes[i / 64 * 32 + i % 32];
  return i % 64 < 32 ? byte & 15 : byte >> 4;
}

// The scale and the offset of group j of Q4_K and Q5_K, 6 bits each.
std::pair<int, int> SixBits(const std::uint8_t* q, int j) {
  if (j < 4) return {q[j] & 63, q[j + 4] & 63};
  return {(q[j + 4] & 15) | (q[j - 4] >> 6) << 4, (q[j + 4] >> 4) | (q[j] >> 6) << 4};
}

// Digit n of a byte of TQ1_0, as ggml has it.
int Digit(std::uint8_t byte, int n) {
  constexpr std::array<std::uint8_t, 5> kPowers = {1, 3, 9, 27, 81};
  const auto shifted = static_cast<std::uint8_t>(byte * kPowers.at(static_cast<std::size_t>(n)));
  return (static_cast<int>(shifted) * 3) >> 8;
}

double KValueOf(absl::string_view type, const std::uint8_t* block, int i) {
  if (type == "Q2_K") {
    const int group = block[i / 16];
    return Half(block + 80) * (group & 15) * TwoBits(block + 16, i) -
           Half(block + 82) * (group >> 4);
  }
  if (type == "Q3_K") {
    std::array<std::uint32_t, 4> words{};
    std::memcpy(words.data(), block + 96, 12);
    // ggml's dance: 16 numbers of 4 bits, and 2 more of each.
    const std::uint32_t high = words[2];
    words[2] = (words[0] >> 4 & 0x0f0f0f0f) | ((high >> 4 & 0x03030303) << 4);
    words[3] = (words[1] >> 4 & 0x0f0f0f0f) | ((high >> 6 & 0x03030303) << 4);
    words[0] = (words[0] & 0x0f0f0f0f) | ((high & 0x03030303) << 4);
    words[1] = (words[1] & 0x0f0f0f0f) | ((high >> 2 & 0x03030303) << 4);
    std::array<std::int8_t, 16> scales{};
    std::memcpy(scales.data(), words.data(), 16);
    const bool has_third = (block[i % 32] >> (i / 32) & 1) != 0;
    return Half(block + 108) * (scales.at(static_cast<std::size_t>(i / 16)) - 32) *
           (TwoBits(block + 32, i) - (has_third ? 0 : 4));
  }
  if (type == "Q4_K") {
    const auto [scale, offset] = SixBits(block + 4, i / 32);
    return Half(block) * scale * LongNibble(block + 16, i) - Half(block + 2) * offset;
  }
  if (type == "Q5_K") {
    const auto [scale, offset] = SixBits(block + 4, i / 32);
    const int fifth = block[16 + i % 32] >> (i / 32) & 1;
    return Half(block) * scale * (LongNibble(block + 48, i) + 16 * fifth) -
           Half(block + 2) * offset;
  }
  if (type == "Q6_K") {
    const std::uint8_t* const low = block + i / 128 * 64;
    const int four = i % 128 < 64 ? low[i % 64] & 15 : low[i % 64] >> 4;
    const int two = block[128 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    return Half(block + 208) * static_cast<std::int8_t>(block[192 + i / 16]) *
           ((four | two << 4) - 32);
  }
  if (type == "TQ2_0") return Half(block + 64) * (TwoBits(block, i) - 1);
  const int digit = i < 160   ? Digit(block[i % 32], i / 32)
                    : i < 240 ? Digit(block[32 + i % 16], (i - 160) / 16)
                              : Digit(block[48 + i % 4], (i - 240) / 4);
  return Half(block + 52) * (digit - 1);
}

double ValueOf(absl::string_view type, const std::uint8_t* block, int i) {
  if (absl::EndsWith(type, "_K") || absl::StartsWith(type, "TQ")) return KValueOf(type, block, i);
  if (type == "Q8_0") return Half(block) * static_cast<std::int8_t>(block[2 + i]);
  if (type == "Q4_0") return Half(block) * (Nibble(block + 2, i) - 8);
  if (type == "Q4_1") return Half(block) * Nibble(block + 4, i) + Half(block + 2);
  if (type == "Q5_0" || type == "Q5_1") {
    const std::uint8_t* const bits = block + (type == "Q5_0" ? 2 : 4);
    std::uint32_t high = 0;
    std::memcpy(&high, bits, sizeof high);
    const int code = Nibble(bits + 4, i) + 16 * static_cast<int>(high >> i & 1);
    return type == "Q5_0" ? Half(block) * (code - 16) : Half(block) * code + Half(block + 2);
  }
  if (type == "IQ4_NL") return Half(block) * NonLinear(Nibble(block + 2, i));
  if (type == "IQ4_XS") {
    const int part = i / 32;
    const int high = (block[2] | block[3] << 8) >> (2 * part) & 3;
    const int low = part % 2 == 0 ? block[4 + part / 2] & 15 : block[4 + part / 2] >> 4;
    return Half(block) * (low + 16 * high - 32) * NonLinear(Nibble(block + 8 + 16 * part, i % 32));
  }
  if (type == "MXFP4") return std::ldexp(E2m1(Nibble(block + 1, i)), block[0] - 127);
  const int part = i / 16;
  const int at = i % 16;
  const std::uint8_t byte = block[4 + 8 * part + at % 8];
  const int exponent = block[part] >> 3;
  const double fraction = (block[part] & 7) / 8.0;
  const double scale =
      exponent == 0 ? std::ldexp(fraction, -6) : std::ldexp(1 + fraction, exponent - 7);
  return scale * E2m1(at < 8 ? byte & 15 : byte >> 4);
}

// The first bytes of a block's numbers of f16.
std::vector<int> HalvesOf(absl::string_view type) {
  if (type == "Q4_1" || type == "Q5_1" || type == "Q4_K" || type == "Q5_K") return {0, 2};
  if (type == "Q2_K") return {80, 82};
  if (type == "Q3_K") return {108};
  if (type == "Q6_K") return {208};
  if (type == "TQ1_0") return {52};
  return {type == "TQ2_0" ? 64 : 0};
}

// Blocks of any bytes that have a form: no scale is NaN or infinite.
std::string RandomBlocks(const GgufType& type, std::uint64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(count * type.block_bytes, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (std::uint64_t i = 0; i < count; ++i) {
    char* const block = bytes.data() + i * type.block_bytes;
    if (type.name == "MXFP4") {
      block[0] = static_cast<char>(random() % 255);
    } else if (type.name == "NVFP4") {
      for (int part = 0; part < 4; ++part) block[part] = static_cast<char>(random() % 0x7f);
    } else {
      for (const int half : HalvesOf(type.name)) {
        char* const bytes_of_half = block + half;
        if ((bytes_of_half[1] & 0x7c) == 0x7c) bytes_of_half[1] &= ~0x40;
        // Zeros of both signs, and the smallest of both.
        if (i % 8 < 2) bytes_of_half[0] = 0;
        if (i % 8 < 4) bytes_of_half[1] = static_cast<char>(i % 2 == 0 ? 0x80 : 0);
      }
    }
  }
  return bytes;
}

TEST(GgufBlocksTest, EveryElementKeepsItsValue) {
  int types = 0;
  for (const GgufType& type : GgufTypes()) {
    if (type.format.empty()) continue;
    ++types;
    const std::uint64_t lines = 37;
    const std::uint64_t k = 3 * type.block_elements;
    const std::string bytes = RandomBlocks(type, lines * 3, 7);
    const auto array = DecodeGgufBlocks(type, lines, k, bytes);
    ASSERT_TRUE(array.ok()) << type.name << ": " << array.status();
    EXPECT_EQ(array->format_name, type.format);
    EXPECT_EQ(array->lines(), lines);
    EXPECT_EQ(array->k(), k);
    ASSERT_TRUE(ToOperand(*array, Side::kA).ok()) << type.name;
    const QuantizedView view = array->view();
    int negative = 0;
    for (std::uint64_t line = 0; line < lines; ++line) {
      for (std::uint64_t i = 0; i < k; ++i) {
        const auto* block = reinterpret_cast<const std::uint8_t*>(bytes.data()) +
                            (line * 3 + i / type.block_elements) * type.block_bytes;
        const double expected =
            ValueOf(type.name, block, static_cast<int>(i % type.block_elements));
        const auto at_line = static_cast<std::int64_t>(line);
        const auto at_k = static_cast<std::int64_t>(i);
        ASSERT_EQ(view.value(at_line, at_k), expected) << type.name << " " << line << ", " << i;
        if (expected < 0) ++negative;
      }
    }
    EXPECT_GT(negative, 100) << type.name;
  }
  EXPECT_EQ(types, 16);
}

TEST(GgufBlocksTest, PartsOfThreadsFollowEachOther) {
  const GgufType& type = TypeOf("Q8_0");
  const std::uint64_t lines = 70000;  // more than a thread takes
  const std::string bytes = RandomBlocks(type, lines, 9);
  const auto array = DecodeGgufBlocks(type, lines, 32, bytes);
  ASSERT_TRUE(array.ok()) << array.status();
  const QuantizedView view = array->view();
  for (const std::int64_t line : {0, 65535, 65536, 69999}) {
    const auto* block = reinterpret_cast<const std::uint8_t*>(bytes.data()) + line * 34;
    for (int i = 0; i < 32; ++i) EXPECT_EQ(view.value(line, i), ValueOf("Q8_0", block, i)) << line;
  }
}

// The second row's last block, with a byte changed.
std::string Why(absl::string_view name, int at, char byte, int code_at = -1, char code = 0) {
  const GgufType& type = TypeOf(name);
  std::string bytes(4 * type.block_bytes, '\0');
  char* const block = bytes.data() + 3 * type.block_bytes;
  block[at] = byte;
  if (code_at >= 0) block[code_at] = code;
  const auto array = DecodeGgufBlocks(type, 2, 2 * type.block_elements, bytes);
  return array.ok() ? "" : std::string(array.status().message());
}

TEST(GgufBlocksTest, ABlockWithoutAFormIsNamed) {
  EXPECT_EQ(Why("Q4_0", 1, 0x7c),
            "the block of row 1, columns 32 to 63 has no form in int4-g32-f16: its scale is "
            "inf; it must be finite");
  EXPECT_THAT(Why("Q8_0", 1, 0x7d), HasSubstr("its scale is nan; it must be finite"));
  EXPECT_THAT(Why("Q5_0", 1, static_cast<char>(0xfc)), HasSubstr("its scale is -inf"));
  EXPECT_THAT(Why("IQ4_NL", 1, 0x7c), HasSubstr("its scale is inf"));
  EXPECT_THAT(Why("IQ4_XS", 1, 0x7c), HasSubstr("columns 256 to 511"));
  EXPECT_EQ(Why("Q8_0", 1, static_cast<char>(0xbc), 33, -128), "");  // 128, of a scale below zero
  for (const absl::string_view type : {"Q4_1", "Q5_1", "Q2_K", "Q4_K", "Q5_K"}) {
    const std::vector<int> halves = HalvesOf(type);
    EXPECT_THAT(Why(type, halves[0] + 1, 0x7c), HasSubstr("its scale is inf")) << type;
    EXPECT_THAT(Why(type, halves[1] + 1, 0x7c), HasSubstr("its offset is inf")) << type;
  }
  for (const absl::string_view type : {"Q3_K", "Q6_K", "TQ1_0", "TQ2_0"}) {
    EXPECT_THAT(Why(type, HalvesOf(type)[0] + 1, 0x7d), HasSubstr("its scale is nan")) << type;
  }
  EXPECT_THAT(Why("MXFP4", 0, static_cast<char>(0xff), 16, 0x10),
              HasSubstr("its scale is the byte 255, NaN, and not all of its codes are zero"));
  EXPECT_THAT(Why("NVFP4", 3, 0x7f), HasSubstr("its scale is the byte 0x7f"));
  EXPECT_THAT(Why("NVFP4", 0, static_cast<char>(0x80)), HasSubstr("its scale is the byte 0x80"));
  EXPECT_EQ(Why("NVFP4", 3, 0x7e), "");
}

TEST(GgufBlocksTest, ZerosUnderTheScaleOfNoNumberAreZeros) {
  const GgufType& type = TypeOf("MXFP4");
  std::string block(17, '\0');
  block[0] = static_cast<char>(0xff);
  block[5] = static_cast<char>(0x80);  // -0
  const auto array = DecodeGgufBlocks(type, 1, 32, block);
  ASSERT_TRUE(array.ok()) << array.status();
  for (int i = 0; i < 32; ++i) EXPECT_EQ(array->view().value(0, i), 0) << i;
}

}  // namespace
}  // namespace gemmd::client
