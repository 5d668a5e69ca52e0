#include "kernels/emulator/tcgen05.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/async_engine.h"
#include "kernels/emulator/collectives.h"
#include "kernels/emulator/failure.h"
#include "kernels/emulator/happens_before.h"
#include "kernels/emulator/machine.h"
#include "kernels/emulator/matrix_operand.h"
#include "kernels/emulator/mbarrier_engine.h"
#include "kernels/emulator/product_block.h"
#include "kernels/emulator/tcgen05_instruction.h"
#include "kernels/emulator/tensor_memory.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kHalfBytes = 2;
constexpr std::uint32_t kHalfColumns = kBlockBytes / 4;  // a row of A in tensor memory
constexpr std::uint32_t kChunkBytes = 16;
constexpr std::uint32_t kPoison = 0x7fffffffu;
constexpr std::uint32_t kFewestColumns = 32;
// Channels of async_engine.h that no other engine has.
constexpr std::uint64_t kAccumulatorChannels = std::uint64_t{1} << 40;

struct TensorAddress {
  std::uint32_t lane;
  std::uint32_t column;
};
TensorAddress Split(std::uint32_t address) {
  return {address >> kTensorLaneShift, address & ((1u << kTensorLaneShift) - 1)};
}

// PTX ISA, "tcgen05.alloc": all instructions of a kernel have the same .cta_group.
void CheckGroup(std::uint32_t group, const char* what, const CallSite& site) {
  Grid& grid = CurrentGrid();
  if (grid.tensor_group == 0) grid.tensor_group = group;
  if (grid.tensor_group != group) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": .cta_group::", group, ", where others of the kernel said ",
                      grid.tensor_group));
  }
  if (group == 2 && CurrentThread().block->cluster->blocks.size() % 2 != 0) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": .cta_group::2 in a cluster without pairs"));
  }
}

// This block, or those of its pair, even rank first.
std::vector<Block*> BlocksOf(std::uint32_t group) {
  Block& block = *CurrentThread().block;
  if (group == 1) return {&block};
  const std::uint32_t even = block.rank / 2 * 2;
  return {&BlockOfRank(*block.cluster, even), &BlockOfRank(*block.cluster, even + 1)};
}

Agent AgentOf(TensorEngine& engine) {
  if (!engine.has_agent) {
    engine.has_agent = true;
    engine.agent = NewAgent(*CurrentThread().block->cluster);
  }
  return engine.agent;
}

void DropLanded(std::vector<OperationId>* operations) {
  operations->erase(std::remove_if(operations->begin(), operations->end(),
                                   [](OperationId id) { return !IsPending(id); }),
                    operations->end());
}

// A product or copy is issued: its step, which those that follow are ordered after.
Step IssueProduct(Thread& thread) {
  const Step step = ++thread.tensor.products.issued;
  thread.tensor.order.Raise(AgentOf(thread.tensor.products), step);
  return step;
}

// ------------------------------------------------------------ allocation

struct AllocationOperand {
  std::uint32_t where;  // slot, or address
  std::uint32_t columns;
};

void CheckColumns(std::uint32_t columns, const char* what, const CallSite& site) {
  const bool is_power = (columns & (columns - 1)) == 0;
  if (is_power && columns >= kFewestColumns && columns <= kTensorColumns) return;
  Fail(Violation::kBadOperand, site,
       absl::StrCat(what, " of ", columns, " columns: not a power of two, 32 to 512"));
}

// All lanes come together and say the same.
void JoinLanes(const AllocationOperand& operand, const char* what, const CallSite& site) {
  AllocationOperand mine = operand;
  WarpCollective(what, &mine, site, [&](void* const* operands) {
    for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const auto& other = *static_cast<const AllocationOperand*>(operands[lane]);
      if (other.where == operand.where && other.columns == operand.columns) continue;
      Fail(Violation::kBadOperand, site, absl::StrCat(what, ": operands differ between lanes"));
    }
  });
}

// Lane 0 waits for its warp. Returns the first column.
std::uint32_t Request(TensorRequest request, std::uint32_t group, const char* what) {
  Thread& thread = CurrentThread();
  request.thread = &thread;
  TensorMemoryOf(*thread.block).requests.push_back(&request);
  ServeTensorRequests(*thread.block, group);
  while (!request.is_done) BlockCurrent({what, request.site, false, 0, request.columns});
  return request.column;
}

// ------------------------------------------------------------ products

// Where rows of D, and of A in tensor memory, lie in one block. PTX ISA, "Data Path Layout
// Organization": D (M of 128) and A (256 in a pair) have a row a lane; F (64) 16 rows in each
// quarter of the lanes; B (128 in a pair) has the right half of the columns in lanes 64 and up.
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

  // Their cells, in `width` columns of tensor memory from `column` on.
  std::vector<TensorBox> Boxes(Block& block, std::uint32_t column, std::uint32_t width) const {
    if (!is_half) return {{&block, 0, kTensorLanes, column, width}};
    std::vector<TensorBox> boxes;
    for (std::uint32_t lane = at.lane; lane < kTensorLanes; lane += 32) {
      boxes.push_back({&block, lane, 16, column, width});
    }
    return boxes;
  }
  std::uint32_t width() const { return is_folded ? columns / 2 : columns; }
};

void CheckLane(const TensorAddress& at, bool is_half, const char* what, const CallSite& site) {
  if (at.lane == 0 || (is_half && at.lane == 16)) return;
  Fail(Violation::kMisaligned, site,
       absl::StrCat(what, ": lane ", at.lane, " of tensor memory, not 0", is_half ? " or 16" : ""));
}

// One product as it was issued.
struct IssuedProduct {
  Tcgen05Instruction instruction;
  bool accumulate;
  bool a_is_in_tensor_memory;
  Accumulators d;  // alike in both blocks of a pair
  TensorAddress a_at;
  std::vector<Block*> blocks;
  std::vector<MatrixOperand> a;  // of each block
  std::vector<MatrixOperand> b;
};

void Negate(std::vector<HalfLine>* lines) {
  for (HalfLine& line : *lines) {
    for (std::uint16_t& element : line) element ^= 0x8000u;
  }
}

// Rows of A out of tensor memory: two elements a word.
std::vector<HalfLine> LoadRows(const IssuedProduct& product, Block& block) {
  std::vector<HalfLine> rows(product.d.rows);
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t lane = product.d.Of(row, 0).lane;
    for (std::uint32_t i = 0; i < kHalfColumns; ++i) {
      const std::uint32_t word = TensorWord(block, lane, product.a_at.column + i);
      std::memcpy(&rows[row][std::size_t{2} * i], &word, sizeof word);
    }
  }
  return rows;
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
        product.a_is_in_tensor_memory
            ? LoadRows(product, block)
            : LoadLines<std::uint16_t>(*block.cluster, product.a[i], product.d.rows);
    if (product.instruction.negates_a) Negate(&lines);
    for (std::uint32_t row = 0; row < product.d.rows; ++row) {
      const RowFactors a = PrepareRow(product.instruction.format, lines[row]);
      for (std::size_t j = 0; j < b.size(); ++j) {
        MultiplyRow(product, block, row, static_cast<std::uint32_t>(j) * kBlockColumns, a, b[j]);
      }
    }
  }
}

std::uint16_t FindAccumulator(TensorMemory& memory, const Accumulator& accumulator) {
  auto& all = memory.accumulators;
  const auto found = std::find(all.begin(), all.end(), accumulator);
  if (found != all.end()) return static_cast<std::uint16_t>(found - all.begin());
  all.push_back(accumulator);
  return static_cast<std::uint16_t>(all.size() - 1);
}

// ------------------------------------------------------------ loads and stores

// Calls f(register, lane, column) for each cell of this thread; packed, for each half in turn.
template <typename F>
void ForEachCell(const Tcgen05Move& move, F f) {
  const std::uint32_t thread = CurrentThread().lane;
  const TensorAddress at = Split(move.address);
  for (std::uint32_t i = 0; i < move.count; ++i) {
    std::uint32_t lane = at.lane + thread;
    std::uint32_t column = i;
    if (move.shape == Tcgen05Shape::k16x256b) {
      lane = at.lane + thread / 4 + 8 * (i / 2 % 2);
      column = i / 4 * 8 + 2 * (thread % 4) + i % 2;
    }
    if (!move.is_packed) {
      f(i, lane, at.column + column, 0u);
      continue;
    }
    f(i, lane, at.column + 2 * column, 0u);
    f(i, lane, at.column + 2 * column + 1, 1u);
  }
}

// PTX ISA, "Tensor Memory Access Restrictions": a warp reaches a quarter of the lanes. Its lanes
// agree on the address.
void CheckMove(const Tcgen05Move& move, const char* what, const CallSite& site) {
  const std::uint32_t first = CurrentThread().index / kWarpSize % 4 * 32;
  const TensorAddress at = Split(move.address);
  const bool is_half = move.shape == Tcgen05Shape::k16x256b;
  if (at.lane != first && !(is_half && at.lane == first + 16)) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": lane ", at.lane, " of tensor memory, where the warp reaches ", first,
                      " to ", first + 31));
  }
  const std::uint32_t columns =
      (is_half ? move.count / 4 * 8 : move.count) * (move.is_packed ? 2 : 1);
  CheckTensorBox({CurrentThread().block, at.lane, is_half ? 16u : 32u, at.column, columns}, what,
                 site);
}

void JoinMove(const Tcgen05Move& move, const char* what, const CallSite& site) {
  std::uint32_t address = move.address;
  WarpCollective(what, &address, site, [&](void* const* operands) {
    for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) {
      if (*static_cast<const std::uint32_t*>(operands[lane]) == move.address) continue;
      Fail(Violation::kBadOperand, site, absl::StrCat(what, ": addresses differ between lanes"));
    }
  });
}

// What the thread waited for is over for what it issues next.
void FinishWait(TensorEngine& engine) {
  if (!engine.has_agent) return;
  engine.done = engine.issued;
  CurrentThread().tensor.view.Raise(engine.agent, engine.done);
}

}  // namespace

void Tcgen05Alloc(std::uint32_t slot, std::uint32_t columns, std::uint32_t group,
                  const CallSite& site) {
  const char* what = "tcgen05.alloc";
  CheckGroup(group, what, site);
  CheckColumns(columns, what, site);
  const std::uint8_t* const bytes = OwnSharedBytes(slot, 4, 4, what, site);
  Thread& thread = CurrentThread();
  JoinLanes({slot, columns}, what, site);
  if (thread.lane == 0) {
    TensorMemory& memory = TensorMemoryOf(*thread.block);
    if (memory.is_relinquished) {
      Fail(Violation::kBadOperand, site, "tcgen05.alloc after tcgen05.relinquish_alloc_permit");
    }
    if (columns > memory.fewest_columns) {
      Fail(Violation::kBadOperand, site,
           absl::StrCat(what, " of ", columns, " columns after one of ", memory.fewest_columns));
    }
    memory.fewest_columns = columns;
    CheckWrite(slot, 4, what, site);
    const std::uint32_t column = Request({true, columns, 0, false, nullptr, site}, group,
                                         "columns of tensor memory (tcgen05.alloc)");
    std::memcpy(const_cast<std::uint8_t*>(bytes), &column, sizeof column);
  }
  JoinLanes({slot, columns}, what, site);
}

void Tcgen05Dealloc(std::uint32_t address, std::uint32_t columns, std::uint32_t group,
                    const CallSite& site) {
  const char* what = "tcgen05.dealloc";
  CheckGroup(group, what, site);
  CheckColumns(columns, what, site);
  const TensorAddress at = Split(address);
  CheckLane(at, false, what, site);
  JoinLanes({address, columns}, what, site);
  if (CurrentThread().lane == 0) {
    Request({false, columns, at.column, false, nullptr, site}, group,
            "the other block of the pair (tcgen05.dealloc)");
  }
  JoinLanes({address, columns}, what, site);
}

void Tcgen05Relinquish(std::uint32_t group, const CallSite& site) {
  const char* what = "tcgen05.relinquish_alloc_permit";
  CheckGroup(group, what, site);
  JoinLanes({0, 0}, what, site);
  TensorMemoryOf(*CurrentThread().block).is_relinquished = true;
}

void Tcgen05Multiply(const Tcgen05Product& product, const CallSite& site) {
  const char* what = "tcgen05.mma";
  CheckGroup(product.group, what, site);
  Thread& thread = CurrentThread();
  IssuedProduct issued = {};
  issued.instruction = DecodeTcgen05Instruction(product.instruction, product.group, site);
  issued.accumulate = product.accumulate;
  issued.a_is_in_tensor_memory = product.a_is_in_tensor_memory;
  issued.blocks = BlocksOf(product.group);
  const Tcgen05Instruction& instruction = issued.instruction;
  const TensorAddress at = Split(product.d);
  const bool is_half = product.group == 1 && instruction.rows == 64;
  const bool is_folded = product.group == 2 && instruction.rows == 128;
  issued.d = {instruction.rows / product.group, instruction.columns, at, is_half, is_folded};
  CheckLane(at, is_half, what, site);
  if (product.a_is_in_tensor_memory) {
    issued.a_at = Split(static_cast<std::uint32_t>(product.a));
    CheckLane(issued.a_at, is_half, what, site);
    if (is_folded || instruction.a_is_mn_major || (is_half && issued.a_at.lane != at.lane)) {
      Fail(Violation::kBadOperand, site,
           absl::StrCat(what, ": A in tensor memory is K-major, in D's lanes, and not emulated ",
                        "with M of 128 in a pair"));
    }
  }

  TensorMemory& memory = TensorMemoryOf(*issued.blocks[0]);
  const std::uint16_t accumulator =
      FindAccumulator(memory, {product.d, instruction.rows, instruction.columns, product.group,
                               instruction.accumulates_f16});
  const Step step = IssueProduct(thread);
  const Agent agent = thread.tensor.products.agent;
  const TensorAccess access = {agent, step, TensorCell::Writer::kProduct, accumulator,
                               product.accumulate};
  for (Block* block : issued.blocks) {
    const auto half = [block](bool is_mn_major) { return OperandForm{kHalfBytes, is_mn_major}; };
    if (product.a_is_in_tensor_memory) {
      for (const TensorBox& box : issued.d.Boxes(*block, issued.a_at.column, kHalfColumns)) {
        CheckTensorBox(box, what, site);
        CheckTensorRead(box, access, what, site);
      }
    } else {
      issued.a.push_back(
          DecodeTcgen05Matrix(product.a, half(instruction.a_is_mn_major), block->rank, site));
      CheckMatrixRead(issued.a.back(), issued.d.rows, agent, step, what, site);
    }
    issued.b.push_back(
        DecodeTcgen05Matrix(product.b, half(instruction.b_is_mn_major), block->rank, site));
    CheckMatrixRead(issued.b.back(), instruction.columns / product.group, agent, step, what, site);
    for (const TensorBox& box : issued.d.Boxes(*block, at.column, issued.d.width())) {
      CheckTensorBox(box, what, site);
      CheckTensorWrite(box, access, what, site);
    }
  }

  DropLanded(&memory.copies);
  DropLanded(&thread.tensor.product_operations);
  const std::uint64_t channel =
      kAccumulatorChannels + (std::uint64_t{issued.blocks[0]->rank} << 16) + accumulator;
  thread.tensor.product_operations.push_back(Post(
      *thread.block->cluster,
      [issued = std::move(issued), copies = memory.copies] {
        for (const OperationId copy : copies) LandNow(copy);
        LandProduct(issued);
      },
      channel));
}

void Tcgen05Copy(Tcgen05CopyShape shape, std::uint32_t address, std::uint64_t descriptor,
                 std::uint32_t group, const CallSite& site) {
  const char* what = "tcgen05.cp";
  CheckGroup(group, what, site);
  Thread& thread = CurrentThread();
  const bool is_wide = shape == Tcgen05CopyShape::k128x256b;
  const std::uint32_t lines = is_wide ? kTensorLanes : 32;
  const std::uint32_t chunks = is_wide ? 2 : 1;
  const TensorAddress at = Split(address);
  CheckLane(at, false, what, site);
  const std::vector<Block*> blocks = BlocksOf(group);
  const Step step = IssueProduct(thread);
  const Agent agent = thread.tensor.products.agent;
  TensorMemory& memory = TensorMemoryOf(*blocks[0]);
  DropLanded(&memory.copies);
  for (Block* block : blocks) {
    // Its elements are what a chunk is: the layout is one of 16 bytes by lines.
    const MatrixOperand source = DecodeTcgen05Matrix(descriptor, {1, false}, block->rank, site);
    for (std::uint32_t line = 0; line < lines; ++line) {
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const std::uint32_t from = source.ChunkAddress(line, chunk);
        SharedBytes(from, kChunkBytes, kChunkBytes, what, site);
        CheckAsyncRead(from, kChunkBytes, agent, step, what, site);
      }
    }
    const TensorBox box = {block, 0, kTensorLanes, at.column, chunks * 4};
    CheckTensorBox(box, what, site);
    CheckTensorWrite(box, {agent, step, TensorCell::Writer::kCopy}, what, site);
    const OperationId id = Post(*block->cluster, [block, source, at, lines, chunks] {
      for (std::uint32_t lane = 0; lane < kTensorLanes; ++lane) {
        for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
          std::array<std::uint32_t, 4> words;
          std::memcpy(words.data(),
                      LandedBytes(*block->cluster, source.ChunkAddress(lane % lines, chunk)),
                      kChunkBytes);
          for (std::uint32_t i = 0; i < 4; ++i) {
            TensorWord(*block, lane, at.column + chunk * 4 + i) = words[i];
          }
        }
      }
    });
    memory.copies.push_back(id);
    thread.tensor.product_operations.push_back(id);
  }
}

void Tcgen05Load(const Tcgen05Move& move, std::uint32_t* registers, const CallSite& site) {
  const char* what = "tcgen05.ld";
  CheckMove(move, what, site);
  Thread& thread = CurrentThread();
  TensorEngine& engine = thread.tensor.loads;
  const TensorAccess access = {AgentOf(engine), ++engine.issued, TensorCell::Writer::kNobody};
  FlyingTensorLoad load = {registers, std::vector<std::uint32_t>(move.count)};
  ForEachCell(move,
              [&](std::uint32_t i, std::uint32_t lane, std::uint32_t column, std::uint32_t half) {
                CheckTensorRead({thread.block, lane, 1, column, 1}, access, what, site);
                const std::uint32_t word = TensorWord(*thread.block, lane, column);
                load.words[i] |= move.is_packed ? (word & 0xffff) << (16 * half) : word;
              });
  std::fill(registers, registers + move.count, kPoison);
  thread.tensor.flying_loads.push_back(std::move(load));
  JoinMove(move, what, site);
}

void Tcgen05Store(const Tcgen05Move& move, const std::uint32_t* registers, const CallSite& site) {
  const char* what = "tcgen05.st";
  CheckMove(move, what, site);
  Thread& thread = CurrentThread();
  TensorEngine& engine = thread.tensor.stores;
  const TensorAccess access = {AgentOf(engine), ++engine.issued, TensorCell::Writer::kStore};
  struct Write {
    std::uint32_t lane;
    std::uint32_t column;
    std::uint32_t word;
  };
  std::vector<Write> writes;
  ForEachCell(move, [&](std::uint32_t i, std::uint32_t lane, std::uint32_t column,
                        std::uint32_t half) {
    CheckTensorWrite({thread.block, lane, 1, column, 1}, access, what, site);
    const std::uint32_t word = move.is_packed ? registers[i] >> (16 * half) & 0xffff : registers[i];
    writes.push_back({lane, column, word});
  });
  thread.tensor.store_operations.push_back(
      Post(*thread.block->cluster, [block = thread.block, writes = std::move(writes)] {
        for (const Write& each : writes) TensorWord(*block, each.lane, each.column) = each.word;
      }));
  JoinMove(move, what, site);
}

void Tcgen05WaitLoad(const CallSite& site) {
  if (IsSkipped(site)) return;
  WarpCollective("tcgen05.wait::ld", nullptr, site, [](void* const*) {});
  TensorWork& work = CurrentThread().tensor;
  for (const FlyingTensorLoad& load : work.flying_loads) {
    std::copy(load.words.begin(), load.words.end(), load.registers);
  }
  work.flying_loads.clear();
  FinishWait(work.loads);
}

void Tcgen05WaitStore(const CallSite& site) {
  if (IsSkipped(site)) return;
  WarpCollective("tcgen05.wait::st", nullptr, site, [](void* const*) {});
  TensorWork& work = CurrentThread().tensor;
  for (const OperationId id : work.store_operations) LandNow(id);
  work.store_operations.clear();
  FinishWait(work.stores);
}

void Tcgen05FenceBefore(const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  for (const TensorEngine* engine : {&thread.tensor.loads, &thread.tensor.stores}) {
    if (engine->has_agent) thread.knows.generic.Raise(engine->agent, engine->done);
  }
  thread.knows.tensor_order.Join(thread.tensor.order);
}

void Tcgen05FenceAfter(const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  thread.tensor.view.Join(thread.knows.generic);
  thread.tensor.view.Join(thread.knows.finished);
  thread.tensor.order.Join(thread.knows.tensor_order);
}

void Tcgen05Commit(std::uint32_t mbarrier, std::uint32_t mask, std::uint32_t group,
                   const CallSite& site) {
  if (IsSkipped(site)) return;
  const char* what = "tcgen05.commit";
  CheckGroup(group, what, site);
  Thread& thread = CurrentThread();
  Cluster& cluster = *thread.block->cluster;
  if (mask == 0 || (mask >> cluster.blocks.size()) != 0) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": multicast to mask ", mask, " in a cluster of ",
                      cluster.blocks.size()));
  }
  // fence::before_thread_sync is part of it.
  thread.knows.tensor_order.Join(thread.tensor.order);
  EngineArrival arrival;
  arrival.agent = AgentOf(thread.tensor.products);
  arrival.done = thread.tensor.products.issued;
  arrival.before = thread.knows;
  arrival.before.generic.Forget(thread.agent);
  DropLanded(&thread.tensor.product_operations);
  for (std::uint32_t rank = 0; rank < cluster.blocks.size(); ++rank) {
    if (((mask >> rank) & 1) == 0) continue;
    const std::uint32_t address = (mbarrier & kOffsetMask) | (rank << kRankShift);
    BeginArrival(address, arrival, site);
    Post(cluster,
         [&cluster, address, arrival, site, operations = thread.tensor.product_operations] {
           for (const OperationId id : operations) LandNow(id);
           CompleteArrival(cluster, address, arrival, site);
         });
  }
}

}  // namespace gemmd::emulator
