// Block-scaled products: what one thread issues.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/arithmetic/fp4_block.h"
#include "kernels/emulator/arithmetic/scaled_block.h"
#include "kernels/emulator/instructions/matrix_operand.h"
#include "kernels/emulator/instructions/tcgen05.h"
#include "kernels/emulator/instructions/tcgen05_instruction.h"
#include "kernels/emulator/instructions/tcgen05_shared.h"
#include "kernels/emulator/instructions/tensor_memory.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"
#include "kernels/emulator/memory/async_engine.h"

namespace gemmd::emulator {
namespace {

constexpr const char* kWhat = "tcgen05.mma.block_scale";
constexpr std::uint32_t kQuarter = 32;       // lanes
constexpr std::uint32_t kUnitElements = 16;  // in 16 bytes, whatever their format

using Bytes = OperandLine<std::uint8_t>;

// One product as it was issued.
struct IssuedProduct {
  Tcgen05ScaledKind kind;
  Tcgen05ScaledInstruction instruction;
  bool accumulate;
  std::uint32_t d_column;
  std::uint32_t a_scales;  // columns
  std::uint32_t b_scales;
  std::vector<Block*> blocks;
  std::vector<MatrixOperand> a;  // of each block
  std::vector<MatrixOperand> b;
  CallSite site;

  std::uint32_t rows() const {  // of a block
    return instruction.rows / static_cast<std::uint32_t>(blocks.size());
  }
};

std::uint32_t BitsOf(FactorFormat format) {
  if (format == FactorFormat::kE2m1) return 4;
  return format == FactorFormat::kE2m3 || format == FactorFormat::kE3m2 ? 6 : 8;
}

// One code a byte. PTX ISA, "Packing formats" of tcgen05's matrices and "Tensors", sub-byte types
// .b4x16_p64 and .b6x16_p32: 16 codes from the lowest bit of 16 bytes on, and padding.
Bytes Unpack(FactorFormat format, const Bytes& packed) {
  const std::uint32_t bits = BitsOf(format);
  Bytes codes;
  for (std::uint32_t i = 0; i < codes.size(); ++i) {
    const std::uint32_t unit = i / kUnitElements * 16;
    const std::uint32_t bit = i % kUnitElements * bits;
    const std::uint32_t low = packed[unit + bit / 8];
    const std::uint32_t high = bit / 8 < 15 ? packed[unit + bit / 8 + 1] : 0;
    codes[i] = static_cast<std::uint8_t>(((high << 8 | low) >> bit % 8) & ((1u << bits) - 1));
  }
  return codes;
}

// The bytes of a line's scales that count. The tensor cores of all quarters of the lanes read
// theirs.
std::array<std::uint8_t, 4> ScalesOf(const IssuedProduct& product, Block& block,
                                     std::uint32_t column, std::uint32_t id, std::uint32_t line) {
  const std::uint32_t count = product.instruction.scales;
  std::array<std::uint8_t, 4> scales = {};
  for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
    const std::uint32_t lane = quarter * kQuarter + line % kQuarter;
    const std::uint32_t word = TensorWord(block, lane, column + line / kQuarter);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto scale = static_cast<std::uint8_t>(word >> (8 * (id + i)));
      if (quarter == 0) scales[i] = scale;
      if (scale == scales[i]) continue;
      Fail(Violation::kBadOperand, product.site,
           absl::StrCat(kWhat, ": scales in lanes ", line % kQuarter, " and ", lane,
                        " of tensor memory differ"));
    }
  }
  return scales;
}

ScaledLine MakeLine(FactorFormat format, bool is_negated, const Bytes& packed, std::uint8_t scale) {
  ScaledLine line = {format, Unpack(format, packed), scale};
  const auto sign = static_cast<std::uint8_t>(1u << (BitsOf(format) - 1));
  for (std::uint8_t& code : line.codes) {
    if (is_negated) code ^= sign;
  }
  return line;
}

// Elements of all columns of B, which the blocks of a pair have half each.
std::vector<Bytes> LoadColumns(const IssuedProduct& product) {
  std::vector<Bytes> columns;
  const auto blocks = static_cast<std::uint32_t>(product.blocks.size());
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const auto part = LoadLines<std::uint8_t>(*product.blocks[i]->cluster, product.b[i],
                                              product.instruction.columns / blocks);
    columns.insert(columns.end(), part.begin(), part.end());
  }
  return columns;
}

// Eight columns of D at a time by the rule of kind::mxf8f6f4.
struct Mxf8f6f4 {
  using Row = ScaledRow;
  using Columns = ScaledColumns;

  static Row MakeRow(const IssuedProduct& product, Block& block, std::uint32_t line,
                     const Bytes& elements) {
    const Tcgen05ScaledInstruction& instruction = product.instruction;
    const auto scales = ScalesOf(product, block, product.a_scales, instruction.a_scale_id, line);
    Row row;
    PrepareScaledRow(MakeLine(instruction.a_format, instruction.negates_a, elements, scales[0]),
                     &row);
    return row;
  }
  static void MakeColumns(const IssuedProduct& product, Block& block, std::uint32_t first,
                          const Bytes* elements, Columns* columns) {
    const Tcgen05ScaledInstruction& instruction = product.instruction;
    std::array<ScaledLine, kBlockColumns> lines;
    for (std::uint32_t i = 0; i < kBlockColumns; ++i) {
      const auto scales =
          ScalesOf(product, block, product.b_scales, instruction.b_scale_id, first + i);
      lines[i] = MakeLine(instruction.b_format, instruction.negates_b, elements[i], scales[0]);
    }
    PrepareScaledColumns(lines, columns);
  }
  static void MultiplyAdd(const Row& row, const Columns& columns, float* sums) {
    MultiplyAddScaled(row, columns, sums);
  }
};

// Eight columns of D at a time by the rule of kind::mxf4 and kind::mxf4nvf4.
struct Fp4 {
  using Row = Fp4Line;
  using Columns = std::array<Fp4Line, kBlockColumns>;

  static Fp4Line MakeFp4Line(const IssuedProduct& product, const Bytes& elements, bool is_negated,
                             const std::array<std::uint8_t, 4>& scales) {
    // Where a line has two scales, each is that of two blocks of 16.
    const bool is_of_32 = product.instruction.scales == 2;
    return PrepareFp4Line(
        elements, is_negated,
        product.instruction.has_e4m3_scales ? Fp4ScaleType::kE4m3 : Fp4ScaleType::kE8m0,
        is_of_32 ? std::array<std::uint8_t, 4>{scales[0], scales[0], scales[1], scales[1]}
                 : scales);
  }
  static Row MakeRow(const IssuedProduct& product, Block& block, std::uint32_t line,
                     const Bytes& elements) {
    const Tcgen05ScaledInstruction& instruction = product.instruction;
    return MakeFp4Line(product, elements, instruction.negates_a,
                       ScalesOf(product, block, product.a_scales, instruction.a_scale_id, line));
  }
  static void MakeColumns(const IssuedProduct& product, Block& block, std::uint32_t first,
                          const Bytes* elements, Columns* columns) {
    const Tcgen05ScaledInstruction& instruction = product.instruction;
    for (std::uint32_t i = 0; i < kBlockColumns; ++i) {
      (*columns)[i] = MakeFp4Line(
          product, elements[i], instruction.negates_b,
          ScalesOf(product, block, product.b_scales, instruction.b_scale_id, first + i));
    }
  }
  static void MultiplyAdd(const Row& row, const Columns& columns, float* sums) {
    for (std::uint32_t i = 0; i < kBlockColumns; ++i) {
      sums[i] = MultiplyAddFp4(sums[i], row, columns[i]);
    }
  }
};

// B is as one block sees it, by its own scales.
template <class Rule>
void MultiplyBlock(const IssuedProduct& product, std::size_t index,
                   const std::vector<Bytes>& columns) {
  Block& block = *product.blocks[index];
  std::vector<typename Rule::Columns> b(columns.size() / kBlockColumns);
  for (std::uint32_t first = 0; first < columns.size(); first += kBlockColumns) {
    Rule::MakeColumns(product, block, first, &columns[first], &b[first / kBlockColumns]);
  }
  const auto a = LoadLines<std::uint8_t>(*block.cluster, product.a[index], product.rows());
  for (std::uint32_t row = 0; row < product.rows(); ++row) {
    const typename Rule::Row prepared = Rule::MakeRow(product, block, row, a[row]);
    for (std::uint32_t j = 0; j < b.size(); ++j) {
      const std::uint32_t column = product.d_column + j * kBlockColumns;
      std::array<float, kBlockColumns> sums = {};
      for (std::uint32_t i = 0; i < kBlockColumns && product.accumulate; ++i) {
        std::memcpy(&sums[i], &TensorWord(block, row, column + i), sizeof sums[i]);
      }
      Rule::MultiplyAdd(prepared, b[j], sums.data());
      for (std::uint32_t i = 0; i < kBlockColumns; ++i) {
        std::memcpy(&TensorWord(block, row, column + i), &sums[i], sizeof sums[i]);
      }
    }
  }
}

void LandProduct(const IssuedProduct& product) {
  const std::vector<Bytes> columns = LoadColumns(product);
  for (std::size_t i = 0; i < product.blocks.size(); ++i) {
    if (product.kind == Tcgen05ScaledKind::kMxf8f6f4) {
      MultiplyBlock<Mxf8f6f4>(product, i, columns);
    } else {
      MultiplyBlock<Fp4>(product, i, columns);
    }
  }
}

// The columns that hold scales of that many lines.
void CheckScales(Block* block, std::uint32_t column, std::uint32_t lines,
                 const TensorAccess& access, const CallSite& site) {
  const TensorBox box = {block, 0, kTensorLanes, column, (lines + kQuarter - 1) / kQuarter};
  CheckTensorBox(box, kWhat, site);
  CheckTensorRead(box, access, kWhat, site);
}

}  // namespace

void Tcgen05MultiplyScaled(const Tcgen05ScaledProduct& product, const CallSite& site) {
  CheckTensorGroup(product.group, kWhat, site);
  Thread& thread = CurrentThread();
  IssuedProduct issued = {};
  issued.kind = product.kind;
  issued.instruction =
      DecodeTcgen05ScaledInstruction(product.kind, product.instruction, product.group, site);
  issued.accumulate = product.accumulate;
  issued.blocks = BlocksOfGroup(product.group);
  issued.site = site;
  const Tcgen05ScaledInstruction& instruction = issued.instruction;
  for (const auto& [address, column] :
       {std::pair{product.d, &issued.d_column}, std::pair{product.a_scales, &issued.a_scales},
        std::pair{product.b_scales, &issued.b_scales}}) {
    const TensorAddress at = SplitTensorAddress(address);
    CheckTensorLane(at, false, kWhat, site);
    *column = at.column;
  }
  Block& first = *issued.blocks[0];
  const std::uint16_t accumulator = FindAccumulator(
      first, {product.d, instruction.rows, instruction.columns, product.group, false, true});
  const Step step = IssueProduct(thread);
  const Agent agent = thread.tensor.products.agent;
  const TensorAccess access = {agent, step, TensorCell::Writer::kProduct, accumulator,
                               product.accumulate};
  for (Block* block : issued.blocks) {
    issued.a.push_back(
        DecodeTcgen05Matrix(product.a, {1, instruction.a_is_mn_major}, block->rank, site));
    CheckMatrixRead(issued.a.back(), issued.rows(), agent, step, kWhat, site);
    issued.b.push_back(
        DecodeTcgen05Matrix(product.b, {1, instruction.b_is_mn_major}, block->rank, site));
    CheckMatrixRead(issued.b.back(), instruction.columns / product.group, agent, step, kWhat, site);
    CheckScales(block, issued.a_scales, issued.rows(), access, site);
    CheckScales(block, issued.b_scales, instruction.columns, access, site);
    const TensorBox box = {block, 0, kTensorLanes, issued.d_column, instruction.columns};
    CheckTensorBox(box, kWhat, site);
    CheckTensorWrite(box, access, kWhat, site);
  }
  PostProduct(first, accumulator, [issued = std::move(issued)] { LandProduct(issued); });
}

}  // namespace gemmd::emulator
