#include "kernels/emulator/instructions/mma_sync.h"

#include <array>
#include <cstring>
#include <memory>

#include "kernels/emulator/arithmetic/product_block.h"
#include "kernels/emulator/machine/collectives.h"

namespace gemmd::emulator {

struct PreparedRows {
  HalfFormat format;
  std::array<HalfLine, 16> lines;
  std::array<RowFactors, 16> rows;
};

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

template <typename F>
void ForEachResult(F f) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint32_t element = 0; element < 4; ++element)
      f(lane, element, OfResult(lane, element));
  }
}

std::uint16_t Half(std::uint32_t word, std::uint32_t half) {
  return static_cast<std::uint16_t>(word >> (16 * half));
}

struct Operand {
  void* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
};

struct Matrices {
  const RowFactors* rows;
  ColumnFactors columns;
};

// A warp multiplies one fragment of A with many of B: the last one prepared is kept.
void PrepareRows(HalfFormat format, const std::array<HalfLine, kRows>& lines, Matrices* matrices) {
  std::shared_ptr<PreparedRows>& last = CurrentThread().warp->last_rows;
  if (last == nullptr || last->format != format || last->lines != lines) {
    if (last == nullptr) last = std::make_shared<PreparedRows>();
    last->format = format;
    last->lines = lines;
    for (std::uint32_t row = 0; row < kRows; ++row) {
      last->rows[row] = PrepareRow(format, lines[row]);
    }
  }
  matrices->rows = last->rows.data();
}

void Gather(HalfFormat format, void* const* operands, Matrices* matrices) {
  std::array<HalfLine, kRows> a;
  ColumnBits b;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const auto& operand = *static_cast<const Operand*>(operands[lane]);
    const std::uint32_t group = lane / 4;
    const std::uint32_t k = 2 * (lane % 4);
    // Both halves of a register at once.
    for (std::uint32_t i = 0; i < 4; ++i) {
      std::memcpy(&a[group + 8 * (i % 2)][k + 8 * (i / 2)], &operand.a[i], sizeof operand.a[i]);
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      b[k + 8 * i][group] = Half(operand.b[i], 0);
      b[k + 8 * i + 1][group] = Half(operand.b[i], 1);
    }
  }
  PrepareRows(format, a, matrices);
  PrepareColumns(format, b, &matrices->columns);
}

}  // namespace

void MmaSync(HalfFormat format, float (&d)[4], const std::uint32_t (&a)[4],
             const std::uint32_t (&b)[2], const CallSite& site) {
  Operand operand{d, a, b};
  WarpCollective("mma.sync", &operand, site, [format](void* const* operands) {
    Matrices matrices;
    Gather(format, operands, &matrices);
    const auto element_of = [operands](std::uint32_t lane, std::uint32_t element) -> float& {
      return static_cast<float*>(static_cast<Operand*>(operands[lane])->d)[element];
    };
    float sum[kRows][kColumns];
    ForEachResult([&](std::uint32_t lane, std::uint32_t element, const Position& at) {
      sum[at.row][at.column] = element_of(lane, element);
    });
    for (std::uint32_t row = 0; row < kRows; ++row) {
      MultiplyAddF32(format, matrices.rows[row], matrices.columns, sum[row]);
    }
    ForEachResult([&](std::uint32_t lane, std::uint32_t element, const Position& at) {
      element_of(lane, element) = sum[at.row][at.column];
    });
  });
}

void MmaSyncF16(std::uint32_t (&d)[2], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                const CallSite& site) {
  Operand operand{d, a, b};
  WarpCollective("mma.sync", &operand, site, [](void* const* operands) {
    Matrices matrices;
    Gather(HalfFormat::kF16, operands, &matrices);
    const auto word_of = [operands](std::uint32_t lane, std::uint32_t element) -> std::uint32_t& {
      return static_cast<std::uint32_t*>(static_cast<Operand*>(operands[lane])->d)[element / 2];
    };
    std::uint16_t sum[kRows][kColumns];
    ForEachResult([&](std::uint32_t lane, std::uint32_t element, const Position& at) {
      sum[at.row][at.column] = Half(word_of(lane, element), element % 2);
    });
    for (std::uint32_t row = 0; row < kRows; ++row) {
      MultiplyAddF16(matrices.rows[row], matrices.columns, sum[row]);
    }
    ForEachResult([&](std::uint32_t lane, std::uint32_t element, const Position& at) {
      std::uint32_t& word = word_of(lane, element);
      const std::uint32_t shift = 16 * (element % 2);
      word = (word & ~(0xffffu << shift)) | (std::uint32_t{sum[at.row][at.column]} << shift);
    });
  });
}

}  // namespace gemmd::emulator
