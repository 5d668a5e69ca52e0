// mma.sync on f64: fragments and arithmetic, on products that are known.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/emulator/launch.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mma_sync_f64.h"

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
  request.kernel = "mma_f64";
  const emulator::Report report =
      emulator::Launch(request, {}, [&] { body(static_cast<int>(ptx::ThreadIndex())); });
  EXPECT_TRUE(report.ok()) << report.message;
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

TEST(MmaF64, Rows16) {
  ExpectF64Rows16<4>();
  ExpectF64Rows16<8>();
  ExpectF64Rows16<16>();
}

// Each product is added in turn: what comes last is not lost beside what was cancelled first.
TEST(MmaF64, AddsByAscendingK) {
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
