#include "kernels/emulator/mma_sync_types.h"

#include <cmath>
#include <cstring>

#include "kernels/emulator/collectives.h"
#include "kernels/emulator/tensor_core.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kLanes = 32;

// Fragment layouts are those of kernels/ptx/mma_sync_types.h.
struct WordOperands {
  void* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
};

struct F64Operands {
  double* d;
  double a;
  double b;
};

struct F64Rows16Operands {
  double* d;
  const double* a;
  const double* b;
};

const WordOperands& Words(void* const* operands, std::uint32_t lane) {
  return *static_cast<const WordOperands*>(operands[lane]);
}

// Calls f(lane, element, row, column) for each element of a 16x8 accumulator.
template <typename F>
void ForEachElement(F f) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t element = 0; element < 4; ++element) {
      f(lane, element, lane / 4 + 8 * (element / 2), 2 * (lane % 4) + element % 2);
    }
  }
}

void MultiplyTf32(void* const* operands) {
  Factors rows[16] = {};
  Factors columns[8] = {};
  for (std::uint32_t row = 0; row < 16; ++row) {
    rows[row].count = BlockProducts(4);
    for (std::uint32_t k = 0; k < 8; ++k) {
      const WordOperands& lane = Words(operands, row % 8 * 4 + k % 4);
      rows[row].Set(FactorFormat::kTf32, static_cast<int>(k), lane.a[row / 8 + 2 * (k / 4)]);
    }
  }
  for (std::uint32_t column = 0; column < 8; ++column) {
    columns[column].count = BlockProducts(4);
    for (std::uint32_t k = 0; k < 8; ++k) {
      columns[column].Set(FactorFormat::kTf32, static_cast<int>(k),
                          Words(operands, column * 4 + k % 4).b[k / 4]);
    }
  }
  ForEachElement([&](auto lane, auto element, auto row, auto column) {
    float* d = static_cast<float*>(Words(operands, lane).d) + element;
    *d = RoundToF32(AlignedSum(*d, rows[row], columns[column]));
  });
}

std::uint32_t ByteOf(std::uint32_t word, std::uint32_t i) {
  return static_cast<std::uint32_t>(static_cast<std::int8_t>(word >> (8 * i)));
}

void MultiplyInt8(void* const* operands) {
  ForEachElement([&](auto lane, auto element, auto row, auto column) {
    std::uint32_t* d = static_cast<std::uint32_t*>(Words(operands, lane).d) + element;
    for (std::uint32_t k = 0; k < 32; ++k) {
      const std::uint32_t t = k % 16 / 4;
      const std::uint32_t a = Words(operands, row % 8 * 4 + t).a[row / 8 + 2 * (k / 16)];
      const std::uint32_t b = Words(operands, column * 4 + t).b[k / 16];
      *d += ByteOf(a, k % 4) * ByteOf(b, k % 4);
    }
  });
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

void MultiplyF64(void* const* operands) {
  const auto at = [operands](std::uint32_t lane) -> const F64Operands& {
    return *static_cast<const F64Operands*>(operands[lane]);
  };
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t column = 2 * (lane % 4) + i;
      double sum = at(lane).d[i];
      for (std::uint32_t k = 0; k < 4; ++k) {
        sum = FusedMultiplyAdd(at(lane / 4 * 4 + k).a, at(column * 4 + k).b, sum);
      }
      at(lane).d[i] = sum;
    }
  }
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

void MmaSyncTf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                 const CallSite& site) {
  WordOperands operand = {d, a, b};
  WarpCollective("mma.sync", &operand, site, MultiplyTf32);
}

void MmaSyncInt8(std::uint32_t (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                 const CallSite& site) {
  WordOperands operand = {d, a, b};
  WarpCollective("mma.sync", &operand, site, MultiplyInt8);
}

void MmaSyncF64(double (&d)[2], double a, double b, const CallSite& site) {
  F64Operands operand = {d, a, b};
  WarpCollective("mma.sync", &operand, site, MultiplyF64);
}

void MmaSyncF64Rows16(int extent, double (&d)[4], const double* a, const double* b,
                      const CallSite& site) {
  F64Rows16Operands operand = {d, a, b};
  WarpCollective("mma.sync", &operand, site,
                 extent == 4   ? MultiplyF64Rows16<4>
                 : extent == 8 ? MultiplyF64Rows16<8>
                               : MultiplyF64Rows16<16>);
}

}  // namespace gemmd::emulator
