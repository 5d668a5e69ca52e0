#include "client/weights/gguf_blocks.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

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

double ValueOf(absl::string_view type, const std::uint8_t* block, int i) {
  if (type == "Q8_0") return Half(block) * static_cast<std::int8_t>(block[2 + i]);
  if (type == "Q4_0") return Half(block) * (Nibble(block + 2, i) - 8);
  if (type == "Q5_0") {
    std::uint32_t high = 0;
    std::memcpy(&high, block + 2, sizeof high);
    const int bit = static_cast<int>(high >> i & 1);
    return Half(block) * (Nibble(block + 6, i) + 16 * bit - 16);
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
      if ((block[1] & 0x7c) == 0x7c) block[1] = static_cast<char>(block[1] & ~0x40);
      // Zeros of both signs, and the smallest of both.
      if (i % 8 < 2) block[0] = 0;
      if (i % 8 < 4) block[1] = static_cast<char>(i % 2 == 0 ? 0x80 : 0);
      // -(-128) is no int8.
      if (type.name == "Q8_0" && Half(reinterpret_cast<std::uint8_t*>(block)) < 0) {
        for (int j = 2; j < 34; ++j) {
          if (block[j] == -128) block[j] = 127;
        }
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
    // A server checks sizes, and that no scale is below zero.
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
        ASSERT_FALSE(std::signbit(view.scale(at_line, at_k))) << type.name;
        if (expected < 0) ++negative;
      }
    }
    EXPECT_GT(negative, 100) << type.name;
  }
  EXPECT_EQ(types, 7);
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
            "the block of row 1, columns 32 to 63 has no form in int4-g32-f16-zp: its scale is "
            "inf; it must be finite");
  EXPECT_THAT(Why("Q8_0", 1, 0x7d), HasSubstr("its scale is nan; it must be finite"));
  EXPECT_THAT(Why("Q5_0", 1, static_cast<char>(0xfc)), HasSubstr("its scale is -inf"));
  EXPECT_THAT(Why("IQ4_NL", 1, 0x7c), HasSubstr("its scale is inf"));
  EXPECT_THAT(Why("IQ4_XS", 1, 0x7c), HasSubstr("columns 256 to 511"));
  EXPECT_THAT(Why("Q8_0", 1, static_cast<char>(0xbc), 33, -128),
              HasSubstr("its code -128 and its scale -1, below zero, need the code 128"));
  // Zero times -128 is 0, whatever its sign.
  EXPECT_EQ(Why("Q8_0", 1, static_cast<char>(0x80), 33, -128), "");
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
