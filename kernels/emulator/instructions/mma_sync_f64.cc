#include "kernels/emulator/instructions/mma_sync_f64.h"

#include <cmath>
#include <cstring>

#include "kernels/emulator/machine/collectives.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kLanes = 32;

// Fragment layouts are those of kernels/ptx/mma_sync_f64.h.
struct F64Rows16Operands {
  double* d;
  const double* a;
  const double* b;
};

// Calls f(lane, element, row, column) for each element of a 16x8 accumulator.
template <typename F>
void ForEachElement(F f) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t element = 0; element < 4; ++element) {
      f(lane, element, lane / 4 + 8 * (element / 2), 2 * (lane % 4) + element % 2);
    }
  }
}

// a * b + c, rounded once. Where several operands are NaN, the hardware passes on b's, else c's,
// else a's, made quiet; a NaN that it makes itself has the sign set. All 1502 NaNs of the dumps of
// an H200 fit.
double FusedMultiplyAdd(double a, double b, double c) {
  const double sum = std::fma(a, b, c);
  if (!std::isnan(sum)) return sum;
  std::uint64_t bits = 0xfff8000000000000u;
  for (const double operand : {a, c, b}) {
    if (std::isnan(operand)) std::memcpy(&bits, &operand, sizeof bits);
  }
  bits |= 0x0008000000000000u;
  double nan;
  std::memcpy(&nan, &bits, sizeof nan);
  return nan;
}

template <int kExtent>
void MultiplyF64Rows16(void* const* operands) {
  double rows[16][kExtent];
  double columns[8][kExtent];
  const auto at = [operands](std::uint32_t lane) -> const F64Rows16Operands& {
    return *static_cast<const F64Rows16Operands*>(operands[lane]);
  };
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t i = 0; i < kExtent / 2; ++i) {
      rows[lane / 4 + 8 * (i % 2)][lane % 4 + 4 * (i / 2)] = at(lane).a[i];
    }
    for (std::uint32_t i = 0; i < kExtent / 4; ++i) {
      columns[lane / 4][lane % 4 + 4 * i] = at(lane).b[i];
    }
  }
  ForEachElement([&](auto lane, auto element, auto row, auto column) {
    double sum = at(lane).d[element];
    for (int k = 0; k < kExtent; ++k) sum = FusedMultiplyAdd(rows[row][k], columns[column][k], sum);
    at(lane).d[element] = sum;
  });
}

}  // namespace

void MmaSyncF64Rows16(int extent, double (&d)[4], const double* a, const double* b,
                      const CallSite& site) {
  F64Rows16Operands operand = {d, a, b};
  WarpCollective("mma.sync", &operand, site,
                 extent == 4   ? MultiplyF64Rows16<4>
                 : extent == 8 ? MultiplyF64Rows16<8>
                               : MultiplyF64Rows16<16>);
}

}  // namespace gemmd::emulator
