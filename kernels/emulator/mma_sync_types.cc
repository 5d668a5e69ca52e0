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

Factors NoFactors() {
  Factors factors = {};
  for (int k = 0; k < kBlockProducts; ++k) factors.Set(HalfFormat::kF16, k, 0);
  return factors;
}

void MultiplyTf32(void* const* operands) {
  Factors rows[16];
  Factors columns[8];
  for (std::uint32_t row = 0; row < 16; ++row) {
    rows[row] = NoFactors();
    for (std::uint32_t k = 0; k < 8; ++k) {
      const WordOperands& lane = Words(operands, row % 8 * 4 + k % 4);
      rows[row].SetTf32(static_cast<int>(k), lane.a[row / 8 + 2 * (k / 4)]);
    }
  }
  for (std::uint32_t column = 0; column < 8; ++column) {
    columns[column] = NoFactors();
    for (std::uint32_t k = 0; k < 8; ++k) {
      columns[column].SetTf32(static_cast<int>(k), Words(operands, column * 4 + k % 4).b[k / 4]);
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

void MultiplyF64(void* const* operands) {
  const auto at = [operands](std::uint32_t lane) -> const F64Operands& {
    return *static_cast<const F64Operands*>(operands[lane]);
  };
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t column = 2 * (lane % 4) + i;
      double sum = at(lane).d[i];
      for (std::uint32_t k = 0; k < 4; ++k) {
        sum = std::fma(at(lane / 4 * 4 + k).a, at(column * 4 + k).b, sum);
      }
      // The sign and payload of a NaN are the hardware's own.
      if (std::isnan(sum)) {
        constexpr std::uint64_t kNan = 0x7ff8000000000000u;
        std::memcpy(&sum, &kNan, sizeof sum);
      }
      at(lane).d[i] = sum;
    }
  }
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

}  // namespace gemmd::emulator
