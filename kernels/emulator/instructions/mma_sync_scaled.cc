#include "kernels/emulator/instructions/mma_sync_scaled.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/arithmetic/scaled_block.h"
#include "kernels/emulator/machine/collectives.h"
#include "kernels/emulator/machine/failure.h"

namespace gemmd::emulator {
namespace {

constexpr const char* kWhat = "mma.sync.block_scale";
constexpr std::uint32_t kRows = 16;
constexpr std::uint32_t kColumns = kBlockColumns;

struct Operand {
  float* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
  MmaScale a_scale;
  MmaScale b_scale;
};

const Operand& Of(void* const* operands, std::uint32_t lane) {
  return *static_cast<const Operand*>(operands[lane]);
}

std::uint8_t ByteOf(const MmaScale& scale) {
  return static_cast<std::uint8_t>(scale.word >> (8 * scale.byte));
}

// PTX ISA, "Matrix Fragments for mma.m16n8k32": four elements of a register follow each other in K.
ScaledLine RowOf(void* const* operands, FactorFormat format, std::uint32_t row) {
  ScaledLine line = {format, {}, 0};
  const std::uint32_t quad = row % 8 * 4;
  for (std::uint32_t k = 0; k < 32; k += 4) {
    const std::uint32_t word = Of(operands, quad + k % 16 / 4).a[row / 8 + 2 * (k / 16)];
    std::memcpy(&line.codes[k], &word, sizeof word);
  }
  const auto thread = static_cast<std::uint32_t>(Of(operands, 0).a_scale.thread);
  line.scale = ByteOf(Of(operands, quad + 2 * thread + row / 8).a_scale);
  return line;
}

ScaledLine ColumnOf(void* const* operands, FactorFormat format, std::uint32_t column) {
  ScaledLine line = {format, {}, 0};
  const std::uint32_t quad = column * 4;
  for (std::uint32_t k = 0; k < 32; k += 4) {
    const std::uint32_t word = Of(operands, quad + k % 16 / 4).b[k / 16];
    std::memcpy(&line.codes[k], &word, sizeof word);
  }
  const auto thread = static_cast<std::uint32_t>(Of(operands, 0).b_scale.thread);
  line.scale = ByteOf(Of(operands, quad + thread).b_scale);
  return line;
}

// PTX ISA, "Valid values for various selector components".
void CheckSelectors(const MmaScale& scale, const char* name, int threads, const CallSite& site) {
  if (scale.byte >= 0 && scale.byte < 4 && scale.thread >= 0 && scale.thread < threads) return;
  Fail(Violation::kBadOperand, site,
       absl::StrCat(kWhat, ": byte-id ", scale.byte, " and thread-id ", scale.thread, " of ", name,
                    ", where 3 and ", threads - 1, " are the highest"));
}

void CheckAlike(void* const* operands, const CallSite& site) {
  const Operand& first = Of(operands, 0);
  for (std::uint32_t lane = 1; lane < kWarpSize; ++lane) {
    const Operand& each = Of(operands, lane);
    if (each.a_scale.byte == first.a_scale.byte && each.a_scale.thread == first.a_scale.thread &&
        each.b_scale.byte == first.b_scale.byte && each.b_scale.thread == first.b_scale.thread) {
      continue;
    }
    Fail(Violation::kBadOperand, site,
         absl::StrCat(kWhat, ": selectors of lanes 0 and ", lane, " differ"));
  }
}

// The four sums of a lane are of row g + 8 * (e / 2), column 2 * t + e % 2.
float& SumAt(void* const* operands, std::uint32_t row, std::uint32_t column) {
  return Of(operands, row % 8 * 4 + column / 2).d[row / 8 * 2 + column % 2];
}

void Multiply(void* const* operands, FactorFormat a_format, FactorFormat b_format) {
  std::array<ScaledLine, kColumns> lines;
  for (std::uint32_t column = 0; column < kColumns; ++column) {
    lines[column] = ColumnOf(operands, b_format, column);
  }
  ScaledColumns columns;
  PrepareScaledColumns(lines, &columns);
  for (std::uint32_t row = 0; row < kRows; ++row) {
    ScaledRow prepared;
    PrepareScaledRow(RowOf(operands, a_format, row), &prepared);
    std::array<float, kColumns> sums;
    for (std::uint32_t i = 0; i < kColumns; ++i) sums[i] = SumAt(operands, row, i);
    MultiplyAddScaled(prepared, columns, sums.data());
    for (std::uint32_t i = 0; i < kColumns; ++i) SumAt(operands, row, i) = sums[i];
  }
}

}  // namespace

void MmaSyncScaled(FactorFormat a_format, FactorFormat b_format, float (&d)[4],
                   const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                   const MmaScale& a_scale, const MmaScale& b_scale, const CallSite& site) {
  CheckSelectors(a_scale, "A", 2, site);
  CheckSelectors(b_scale, "B", 4, site);
  Operand operand = {d, a, b, a_scale, b_scale};
  WarpCollective(kWhat, &operand, site, [a_format, b_format, &site](void* const* operands) {
    CheckAlike(operands, site);
    Multiply(operands, a_format, b_format);
  });
}

}  // namespace gemmd::emulator
