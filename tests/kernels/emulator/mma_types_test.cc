// mma.sync on tf32, int8 and f64: fragments and arithmetic, on products that are known.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mma_sync_types.h"

namespace gemmd::testing {
namespace {

// Numbers that differ wherever an index does.
int ElementOfA(int row, int k) { return (row * 37 + k * 11) % 97 - 48; }
int ElementOfB(int k, int column) { return (k * 53 + column * 29) % 101 - 50; }
int ElementOfC(int row, int column) { return row * 8 + column; }

int Expected(int row, int column, int extent) {
  int sum = ElementOfC(row, column);
  for (int k = 0; k < extent; ++k) sum += ElementOfA(row, k) * ElementOfB(k, column);
  return sum;
}

void RunWarp(const std::function<void(int lane)>& body) {
  emulator::LaunchRequest request;
  request.kernel = "mma_types";
  const emulator::Report report =
      emulator::Launch(request, {}, [&] { body(static_cast<int>(ptx::ThreadIndex())); });
  EXPECT_TRUE(report.ok()) << report.message;
}

TEST(MmaTypes, Tf32) {
  RunWarp([](int lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    const auto word = [](int value) {
      // Bits below tf32's 10 fraction bits are cut off.
      return ptx::BitsOfFloat(static_cast<float>(value)) | (value == 0 ? 0 : 0x1fff);
    };
    const std::uint32_t a[4] = {word(ElementOfA(g, t)), word(ElementOfA(g + 8, t)),
                                word(ElementOfA(g, t + 4)), word(ElementOfA(g + 8, t + 4))};
    const std::uint32_t b[2] = {word(ElementOfB(t, g)), word(ElementOfB(t + 4, g))};
    float d[4];
    for (int e = 0; e < 4; ++e) {
      d[e] = static_cast<float>(ElementOfC(g + 8 * (e / 2), 2 * t + e % 2));
    }
    ptx::MmaTf32(d, a, b);
    for (int e = 0; e < 4; ++e) {
      EXPECT_EQ(d[e], static_cast<float>(Expected(g + 8 * (e / 2), 2 * t + e % 2, 8)));
    }
  });
}

TEST(MmaTypes, Int8) {
  RunWarp([](int lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    const auto pack = [](const std::function<int(int)>& element) {
      std::uint32_t word = 0;
      for (int j = 0; j < 4; ++j) {
        word |= (static_cast<std::uint32_t>(element(j)) & 0xff) << (8 * j);
      }
      return word;
    };
    std::uint32_t a[4];
    std::uint32_t b[2];
    std::uint32_t d[4];
    for (int i = 0; i < 4; ++i) {
      a[i] = pack([&](int j) { return ElementOfA(g + 8 * (i % 2), 4 * t + j + 16 * (i / 2)); });
      d[i] = static_cast<std::uint32_t>(ElementOfC(g + 8 * (i / 2), 2 * t + i % 2));
    }
    for (int i = 0; i < 2; ++i) {
      b[i] = pack([&](int j) { return ElementOfB(4 * t + j + 16 * i, g); });
    }
    ptx::MmaInt8(d, a, b);
    for (int e = 0; e < 4; ++e) {
      EXPECT_EQ(static_cast<int>(d[e]), Expected(g + 8 * (e / 2), 2 * t + e % 2, 32));
    }
    // Sums wrap.
    std::uint32_t wrapped[4] = {0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff};
    const std::uint32_t ones_a[4] = {0x01010101, 0x01010101, 0x01010101, 0x01010101};
    const std::uint32_t ones_b[2] = {0x01010101, 0x01010101};
    ptx::MmaInt8(wrapped, ones_a, ones_b);
    EXPECT_EQ(wrapped[3], 0x7fffffffu + 32);
  });
}

TEST(MmaTypes, F64) {
  RunWarp([](int lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    double d[2] = {static_cast<double>(ElementOfC(g, 2 * t)),
                   static_cast<double>(ElementOfC(g, 2 * t + 1))};
    ptx::MmaF64(d, ElementOfA(g, t), ElementOfB(t, g));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(d[i], Expected(g, 2 * t + i, 4));
  });
}

template <int kK>
void ExpectF64Rows16() {
  RunWarp([](int lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    double a[kK / 2];
    double b[kK / 4];
    double d[4];
    for (int i = 0; i < kK / 2; ++i) a[i] = ElementOfA(g + 8 * (i % 2), t + 4 * (i / 2));
    for (int i = 0; i < kK / 4; ++i) b[i] = ElementOfB(t + 4 * i, g);
    for (int e = 0; e < 4; ++e) d[e] = ElementOfC(g + 8 * (e / 2), 2 * t + e % 2);
    ptx::MmaF64Rows16<kK>(d, a, b);
    for (int e = 0; e < 4; ++e) {
      EXPECT_EQ(d[e], Expected(g + 8 * (e / 2), 2 * t + e % 2, kK));
    }
  });
}

TEST(MmaTypes, F64Rows16) {
  ExpectF64Rows16<4>();
  ExpectF64Rows16<8>();
  ExpectF64Rows16<16>();
}

// Each product is added in turn: what comes last is not lost beside what was cancelled first.
TEST(MmaTypes, F64Rows16AddsByAscendingK) {
  RunWarp([](int lane) {
    const int t = lane % 4;
    double a[8];
    double b[4];
    for (int i = 0; i < 8; ++i) {
      const int k = t + 4 * (i / 2);
      a[i] = k == 3 ? 0x1p60 : k == 9 ? -0x1p60 : 1;
    }
    for (double& x : b) x = 1;
    double d[4] = {0, 0, 0, 0};
    ptx::MmaF64Rows16<16>(d, a, b);
    // 3, then 2^60 + 3 to 2^60, five that are lost, then six.
    for (const double sum : d) EXPECT_EQ(sum, 6);
  });
}

}  // namespace
}  // namespace gemmd::testing
