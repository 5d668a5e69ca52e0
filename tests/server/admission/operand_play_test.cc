// Random operands, good and bad: what is let in is computed.
#include "tests/server/admission/operand_play.h"

#include <array>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd::testing {
namespace {

TEST(OperandPlay, WhatIsLetInIsComputed) {
  std::mt19937 random(1);
  std::array<int, 4> outcomes{};
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::uint8_t> bytes(40 + random() % 80);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    ++outcomes[static_cast<std::size_t>(PlayOperands(bytes.data(), bytes.size()))];
  }
  EXPECT_GT(outcomes[static_cast<std::size_t>(OperandPlay::kHeaderRefused)], 200);
  EXPECT_GT(outcomes[static_cast<std::size_t>(OperandPlay::kPayloadRefused)], 20);
  EXPECT_GT(outcomes[static_cast<std::size_t>(OperandPlay::kComputed)], 200);
}

}  // namespace
}  // namespace gemmd::testing
