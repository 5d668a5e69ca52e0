#include "server/device/scale_values.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "base/numbers/quant/elements.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

// The message where the scale of that code stands behind a good one, from an odd address on.
std::string MessageOf(DataType type, std::uint32_t code) {
  const auto bytes = static_cast<std::size_t>(SizeBits(type) / 8);
  std::string memory(1 + 2 * bytes, '\0');
  std::memcpy(memory.data() + 1 + bytes, &code, bytes);
  return std::string(CheckScaleValues("a.scales", type, memory.data() + 1, 2 * bytes).message());
}

TEST(ScaleValues, AreFiniteAndOfE4M3AtLeastZero) {
  for (const DataType type : {DataType::kF16, DataType::kBf16, DataType::kFp8E4M3}) {
    for (std::uint32_t code = 0; code < std::uint32_t{1} << SizeBits(type); ++code) {
      const double value = DecodeElement(type, code);
      const bool is_good = std::isfinite(value) && (value >= 0 || type != DataType::kFp8E4M3);
      const std::string message = MessageOf(type, code);
      EXPECT_EQ(message.empty(), is_good) << Name(type) << " " << code << ": " << message;
      if (!is_good) {
        EXPECT_EQ(message.substr(0, 15), "a.scales[1] is ");
      }
    }
  }
}

TEST(ScaleValues, AreFiniteInF32Too) {
  const auto message = [](float value) {
    std::uint32_t code = 0;
    std::memcpy(&code, &value, sizeof code);
    return MessageOf(DataType::kF32, code);
  };
  using Limits = std::numeric_limits<float>;
  for (const float good : {0.0F, -0.0F, -Limits::denorm_min(), -2.0F, Limits::max()}) {
    EXPECT_EQ(message(good), "");
  }
  EXPECT_EQ(message(Limits::infinity()), "a.scales[1] is inf; it must be finite");
  EXPECT_EQ(message(-Limits::infinity()), "a.scales[1] is -inf; it must be finite");
  EXPECT_NE(message(Limits::quiet_NaN()), "");
}

TEST(ScaleValues, OfE8M0AreAllButOne) {
  for (std::uint32_t code = 0; code < 0xFF; ++code) {
    EXPECT_EQ(MessageOf(DataType::kE8M0, code), "");
  }
  EXPECT_EQ(MessageOf(DataType::kE8M0, 0xFF),
            "a.scales[1] is 0xff, the NaN of e8m0; a scale must be 0 to 0xfe");
}

TEST(ZeroPoints, AreValuesOfTheElements) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::uint8_t points[] = {0, static_cast<std::uint8_t>(byte)};
    const auto message = [&points](DataType element) {
      return std::string(CheckZeroPoints("b.zero_points", element, points, 2).message());
    };
    EXPECT_EQ(message(DataType::kInt8), "");
    EXPECT_EQ(message(DataType::kUint8), "");
    EXPECT_EQ(message(DataType::kUint4).empty(), byte <= 16) << byte;
    const int value = byte < 128 ? byte : byte - 256;
    EXPECT_EQ(message(DataType::kInt4).empty(), value >= -8 && value < 8) << value;
    if (value == -9) {
      EXPECT_EQ(message(DataType::kInt4), "b.zero_points[1] is -9; of int4 it must be -8 to 7");
    }
  }
}

}  // namespace
}  // namespace gemmd
