#include "kernels/emulator/mma_sync.h"

#include "kernels/emulator/collectives.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kRows = 16;
constexpr std::uint32_t kColumns = 8;

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type". With
// g = lane / 4 and t = lane % 4, half h of a register holds:
//   a[i]  row g + 8 * (i % 2),  k = 2 * t + h + 8 * (i / 2)
//   b[i]  k = 2 * t + h + 8 * i,  column g
//   d     element e of 4: row g + 8 * (e / 2),  column 2 * t + e % 2
struct Position {
  std::uint32_t row;
  std::uint32_t column;
};

Position OfResult(std::uint32_t lane, std::uint32_t element) {
  return {lane / 4 + 8 * (element / 2), 2 * (lane % 4) + element % 2};
}

std::uint16_t Half(std::uint32_t word, std::uint32_t half) {
  return static_cast<std::uint16_t>(word >> (16 * half));
}

struct Operand {
  void* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
};

void Gather(HalfFormat format, void* const* operands, Factors (&a)[kRows], Factors (&b)[kColumns]) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const auto& operand = *static_cast<const Operand*>(operands[lane]);
    const std::uint32_t group = lane / 4;
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t k = 2 * (lane % 4) + half;
      for (std::uint32_t i = 0; i < 4; ++i) {
        a[group + 8 * (i % 2)].Set(format, static_cast<int>(k + 8 * (i / 2)),
                                   Half(operand.a[i], half));
      }
      for (std::uint32_t i = 0; i < 2; ++i) {
        b[group].Set(format, static_cast<int>(k + 8 * i), Half(operand.b[i], half));
      }
    }
  }
}

}  // namespace

void MmaSync(HalfFormat format, float (&d)[4], const std::uint32_t (&a)[4],
             const std::uint32_t (&b)[2], const CallSite& site) {
  Operand operand{d, a, b};
  WarpCollective("mma.sync", &operand, site, [format](void* const* operands) {
    Factors rows[kRows];
    Factors columns[kColumns];
    Gather(format, operands, rows, columns);
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      auto* result = static_cast<float*>(static_cast<Operand*>(operands[lane])->d);
      for (std::uint32_t element = 0; element < 4; ++element) {
        const Position at = OfResult(lane, element);
        result[element] = RoundToF32(AlignedSum(result[element], rows[at.row], columns[at.column]));
      }
    }
  });
}

void MmaSyncF16(std::uint32_t (&d)[2], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                const CallSite& site) {
  Operand operand{d, a, b};
  WarpCollective("mma.sync", &operand, site, [](void* const* operands) {
    Factors rows[kRows];
    Factors columns[kColumns];
    Gather(HalfFormat::kF16, operands, rows, columns);
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      auto* result = static_cast<std::uint32_t*>(static_cast<Operand*>(operands[lane])->d);
      for (std::uint32_t element = 0; element < 4; ++element) {
        const Position at = OfResult(lane, element);
        std::uint32_t& word = result[element / 2];
        const std::uint32_t shift = 16 * (element % 2);
        const float addend = Widen(HalfFormat::kF16, static_cast<std::uint16_t>(word >> shift));
        const std::uint32_t sum = RoundToF16(AlignedSum(addend, rows[at.row], columns[at.column]));
        word = (word & ~(0xffffu << shift)) | (sum << shift);
      }
    }
  });
}

}  // namespace gemmd::emulator
