#include "base/order/k_order.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

std::string Message(const std::vector<std::uint32_t>& order, std::uint64_t k) {
  return std::string(CheckKOrder("b.k_order", order, k).message());
}

TEST(KOrder, EachPlaceComesOnce) {
  EXPECT_EQ(Message({2, 0, 1}, 3), "");
  EXPECT_EQ(Message({}, 0), "");
  EXPECT_EQ(Message({0, 1}, 3), "b.k_order has 2 entries; it must have K, 3");
  EXPECT_EQ(Message({0, 3, 1}, 3), "b.k_order[1] is 3; it must be less than K, 3");
  EXPECT_EQ(Message({0, 4294967295, 1}, 3),
            "b.k_order[1] is 4294967295; it must be less than K, 3");
  EXPECT_EQ(Message({0, 1, 1}, 3),
            "b.k_order[2] is 1, which came before; each place of K comes once");
}

TEST(KOrder, ElementsMoveAndPaddingStays) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const std::size_t k = 1 + random() % 40;
    const std::size_t lines = 1 + random() % 9;
    const std::size_t bytes = std::size_t{1} << random() % 4;
    const bool k_is_inner = random() % 2 == 0;
    const std::size_t inner = k_is_inner ? k : lines;
    const std::size_t outer = k_is_inner ? lines : k;
    const std::size_t pitch = (inner + random() % 3) * bytes;
    std::vector<std::uint32_t> order(k);
    std::iota(order.begin(), order.end(), 0);
    // Cycles of every length, those of one place too.
    if (random() % 4 != 0) std::shuffle(order.begin(), order.end(), random);
    std::string plane((outer - 1) * pitch + inner * bytes, '\0');
    for (char& byte : plane) byte = static_cast<char>(random());
    const std::string before = plane;
    KLines matrix;
    matrix.data = plane.data();
    matrix.element_bytes = bytes;
    matrix.lines = lines;
    matrix.line_step = k_is_inner ? pitch : bytes;
    matrix.k_step = k_is_inner ? bytes : pitch;
    PutInOrder(order, matrix);
    std::string expected = before;
    for (std::size_t line = 0; line < lines; ++line) {
      for (std::size_t at = 0; at < k; ++at) {
        expected.replace(line * matrix.line_step + at * matrix.k_step, bytes,
                         before.substr(line * matrix.line_step + order[at] * matrix.k_step, bytes));
      }
    }
    ASSERT_EQ(plane, expected) << lines << " lines of " << k << ", " << bytes << " bytes each";
  }
}

TEST(KOrder, OrdersAreEqualByTheirPlaces) {
  const auto make = [](std::vector<std::uint32_t> order) {
    return std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
  };
  EXPECT_TRUE(AreEqual(nullptr, nullptr));
  EXPECT_TRUE(AreEqual(make({1, 0}), make({1, 0})));
  EXPECT_FALSE(AreEqual(make({1, 0}), make({0, 1})));
  EXPECT_FALSE(AreEqual(make({0, 1}), nullptr));
}

}  // namespace
}  // namespace gemmd
