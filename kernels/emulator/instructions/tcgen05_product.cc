// Products and copies: what one thread issues.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/arithmetic/product_block.h"
#include "kernels/emulator/instructions/matrix_operand.h"
#include "kernels/emulator/instructions/tcgen05.h"
#include "kernels/emulator/instructions/tcgen05_instruction.h"
#include "kernels/emulator/instructions/tcgen05_shared.h"
#include "kernels/emulator/instructions/tensor_memory.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"
#include "kernels/emulator/memory/async_engine.h"
#include "kernels/emulator/memory/happens_before.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kHalfBytes = 2;
constexpr std::uint32_t kChunkBytes = 16;

// Where rows of D lie in one block. PTX ISA, "Data Path Layout Organization": D (M of 128) and A
// (256 in a pair) have a row a lane; F (64) 16 rows in each quarter of the lanes; B (128 in a pair)
// has the right half of the columns in lanes 64 and up.
struct Accumulators {
  std::uint32_t rows;  // of this block
  std::uint32_t columns;
  TensorAddress at;
  bool is_half;    // F
  bool is_folded;  // B

  TensorAddress Of(std::uint32_t row, std::uint32_t column) const {
    if (is_half) return {row / 16 * 32 + row % 16 + at.lane, at.column + column};
    if (!is_folded) return {row, at.column + column};
    const std::uint32_t width = columns / 2;
    return {row + column / width * 64, at.column + column % width};
  }

  // Their cells.
  std::vector<TensorBox> Boxes(Block& block) const {
    const std::uint32_t width = is_folded ? columns / 2 : columns;
    if (!is_half) return {{&block, 0, kTensorLanes, at.column, width}};
    std::vector<TensorBox> boxes;
    for (std::uint32_t lane = at.lane; lane < kTensorLanes; lane += 32) {
      boxes.push_back({&block, lane, 16, at.column, width});
    }
    return boxes;
  }
};

// One product as it was issued.
struct IssuedProduct {
  Tcgen05Instruction instruction;
  bool accumulate;
  Accumulators d;  // alike in both blocks of a pair
  std::vector<Block*> blocks;
  std::vector<MatrixOperand> a;  // of each block
  std::vector<MatrixOperand> b;
};

void Negate(std::vector<HalfLine>* lines) {
  for (HalfLine& line : *lines) {
    for (std::uint16_t& element : line) element ^= 0x8000u;
  }
}

std::vector<ColumnFactors> PrepareB(const IssuedProduct& product) {
  std::vector<HalfLine> lines;
  for (std::size_t i = 0; i < product.blocks.size(); ++i) {
    const std::uint32_t count =
        product.instruction.columns / static_cast<std::uint32_t>(product.blocks.size());
    const auto part = LoadLines<std::uint16_t>(*product.blocks[i]->cluster, product.b[i], count);
    lines.insert(lines.end(), part.begin(), part.end());
  }
  if (product.instruction.negates_b) Negate(&lines);
  std::vector<ColumnFactors> prepared(lines.size() / kBlockColumns);
  for (std::size_t block = 0; block < prepared.size(); ++block) {
    ColumnBits bits;
    for (int k = 0; k < kBlockProducts; ++k) {
      for (int i = 0; i < kBlockColumns; ++i) bits[k][i] = lines[block * kBlockColumns + i][k];
    }
    PrepareColumns(product.instruction.format, bits, &prepared[block]);
  }
  return prepared;
}

// Eight sums of a row, in place.
void MultiplyRow(const IssuedProduct& product, Block& block, std::uint32_t row,
                 std::uint32_t column, const RowFactors& a, const ColumnFactors& b) {
  std::array<std::uint32_t, kBlockColumns> words = {};
  const TensorAddress at = product.d.Of(row, column);
  if (product.accumulate) {
    for (std::uint32_t i = 0; i < kBlockColumns; ++i) {
      words[i] = TensorWord(block, at.lane, at.column + i);
    }
  }
  if (product.instruction.accumulates_f16) {
    // A word has one f16, in its low half. PTX ISA, "Packing format for matrix D".
    std::array<std::uint16_t, kBlockColumns> sums;
    std::copy(words.begin(), words.end(), sums.begin());
    MultiplyAddF16(a, b, sums.data());
    std::copy(sums.begin(), sums.end(), words.begin());
  } else {
    std::array<float, kBlockColumns> sums;
    std::memcpy(sums.data(), words.data(), sizeof sums);
    MultiplyAddF32(product.instruction.format, a, b, sums.data());
    std::memcpy(words.data(), sums.data(), sizeof sums);
  }
  for (std::uint32_t i = 0; i < kBlockColumns; ++i) {
    TensorWord(block, at.lane, at.column + i) = words[i];
  }
}

void LandProduct(const IssuedProduct& product) {
  const std::vector<ColumnFactors> b = PrepareB(product);
  for (std::size_t i = 0; i < product.blocks.size(); ++i) {
    Block& block = *product.blocks[i];
    std::vector<HalfLine> lines =
        LoadLines<std::uint16_t>(*block.cluster, product.a[i], product.d.rows);
    if (product.instruction.negates_a) Negate(&lines);
    for (std::uint32_t row = 0; row < product.d.rows; ++row) {
      const RowFactors a = PrepareRow(product.instruction.format, lines[row]);
      for (std::size_t j = 0; j < b.size(); ++j) {
        MultiplyRow(product, block, row, static_cast<std::uint32_t>(j) * kBlockColumns, a, b[j]);
      }
    }
  }
}

}  // namespace

Step IssueProduct(Thread& thread) {
  const Step step = ++thread.tensor.products.issued;
  thread.tensor.order.Raise(AgentOf(thread.tensor.products), step);
  return step;
}

std::uint16_t FindAccumulator(Block& block, const Accumulator& accumulator) {
  auto& all = TensorMemoryOf(block).accumulators;
  const auto found = std::find(all.begin(), all.end(), accumulator);
  if (found != all.end()) return static_cast<std::uint16_t>(found - all.begin());
  all.push_back(accumulator);
  return static_cast<std::uint16_t>(all.size() - 1);
}

void PostProduct(Block& first, std::uint16_t accumulator, std::function<void()> land) {
  // Channels of async_engine.h that no other engine has.
  constexpr std::uint64_t kAccumulatorChannels = std::uint64_t{1} << 40;
  Thread& thread = CurrentThread();
  TensorMemory& memory = TensorMemoryOf(first);
  DropLanded(&memory.copies);
  DropLanded(&thread.tensor.product_operations);
  const std::uint64_t channel =
      kAccumulatorChannels + (std::uint64_t{first.rank} << 16) + accumulator;
  thread.tensor.product_operations.push_back(Post(
      *thread.block->cluster,
      [land = std::move(land), copies = memory.copies] {
        for (const OperationId copy : copies) LandNow(copy);
        land();
      },
      channel));
}

void Tcgen05Multiply(const Tcgen05Product& product, const CallSite& site) {
  const char* what = "tcgen05.mma";
  CheckTensorGroup(product.group, what, site);
  Thread& thread = CurrentThread();
  IssuedProduct issued = {};
  issued.instruction = DecodeTcgen05Instruction(product.instruction, product.group, site);
  issued.accumulate = product.accumulate;
  issued.blocks = BlocksOfGroup(product.group);
  const Tcgen05Instruction& instruction = issued.instruction;
  const TensorAddress at = SplitTensorAddress(product.d);
  const bool is_half = product.group == 1 && instruction.rows == 64;
  const bool is_folded = product.group == 2 && instruction.rows == 128;
  issued.d = {instruction.rows / product.group, instruction.columns, at, is_half, is_folded};
  CheckTensorLane(at, is_half, what, site);

  const std::uint16_t accumulator =
      FindAccumulator(*issued.blocks[0], {product.d, instruction.rows, instruction.columns,
                                          product.group, instruction.accumulates_f16, false});
  const Step step = IssueProduct(thread);
  const Agent agent = thread.tensor.products.agent;
  const TensorAccess access = {agent, step, TensorCell::Writer::kProduct, accumulator,
                               product.accumulate};
  for (Block* block : issued.blocks) {
    const auto half = [](bool is_mn_major) { return OperandForm{kHalfBytes, is_mn_major}; };
    issued.a.push_back(
        DecodeTcgen05Matrix(product.a, half(instruction.a_is_mn_major), block->rank, site));
    CheckMatrixRead(issued.a.back(), issued.d.rows, agent, step, what, site);
    issued.b.push_back(
        DecodeTcgen05Matrix(product.b, half(instruction.b_is_mn_major), block->rank, site));
    CheckMatrixRead(issued.b.back(), instruction.columns / product.group, agent, step, what, site);
    for (const TensorBox& box : issued.d.Boxes(*block)) {
      CheckTensorBox(box, what, site);
      CheckTensorWrite(box, access, what, site);
    }
  }

  Block& first = *issued.blocks[0];
  PostProduct(first, accumulator, [issued = std::move(issued)] { LandProduct(issued); });
}

void Tcgen05Copy(std::uint32_t address, std::uint64_t descriptor, std::uint32_t group,
                 const CallSite& site) {
  const char* what = "tcgen05.cp";
  CheckTensorGroup(group, what, site);
  Thread& thread = CurrentThread();
  constexpr std::uint32_t kLines = 32;
  constexpr std::uint32_t kWords = kChunkBytes / 4;
  const TensorAddress at = SplitTensorAddress(address);
  CheckTensorLane(at, false, what, site);
  const std::vector<Block*> blocks = BlocksOfGroup(group);
  const Step step = IssueProduct(thread);
  const Agent agent = thread.tensor.products.agent;
  TensorMemory& memory = TensorMemoryOf(*blocks[0]);
  DropLanded(&memory.copies);
  for (Block* block : blocks) {
    // Its elements are what a chunk is: the layout is one of 16 bytes by lines.
    const MatrixOperand source = DecodeTcgen05Matrix(descriptor, {1, false}, block->rank, site);
    for (std::uint32_t line = 0; line < kLines; ++line) {
      const std::uint32_t from = source.ChunkAddress(line, 0);
      SharedBytes(from, kChunkBytes, kChunkBytes, what, site);
      CheckAsyncRead(from, kChunkBytes, agent, step, what, site);
    }
    const TensorBox box = {block, 0, kTensorLanes, at.column, kWords};
    CheckTensorBox(box, what, site);
    CheckTensorWrite(box, {agent, step, TensorCell::Writer::kCopy}, what, site);
    const OperationId id = Post(*block->cluster, [block, source, at] {
      for (std::uint32_t lane = 0; lane < kTensorLanes; ++lane) {
        std::array<std::uint32_t, kWords> words;
        std::memcpy(words.data(),
                    LandedBytes(*block->cluster, source.ChunkAddress(lane % kLines, 0)),
                    kChunkBytes);
        for (std::uint32_t i = 0; i < kWords; ++i) {
          TensorWord(*block, lane, at.column + i) = words[i];
        }
      }
    });
    memory.copies.push_back(id);
    thread.tensor.product_operations.push_back(id);
  }
}

}  // namespace gemmd::emulator
