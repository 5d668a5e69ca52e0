#include "kernels/emulator/instructions/tensor_memory.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/failure.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kPoison = 0x7fffffffu;  // NaN as f32, and f16 in its low half

std::string Describe(std::uint32_t lane, std::uint32_t column) {
  return absl::StrCat("tensor memory lane ", lane, " column ", column);
}

const char* DescribeWriter(TensorCell::Writer by) {
  switch (by) {
    case TensorCell::Writer::kNobody:
      return "nothing that was ever written";
    case TensorCell::Writer::kProduct:
      return "a product";
    case TensorCell::Writer::kCopy:
      return "bytes of a tcgen05.cp";
  }
  return "";
}

// Returns whether a step is over for tcgen05 instructions of the thread.
bool IsInView(const Thread& thread, Agent agent, Step step) {
  return thread.tensor.view[agent] >= step;
}

// Returns whether the write and the access are a pipelined pair and the write was issued before:
// that is enough.
bool IsPipelined(const Thread& thread, const TensorCell& cell, const TensorAccess& access) {
  if (access.by != TensorCell::Writer::kProduct) return false;
  const bool is_pair =
      cell.by == TensorCell::Writer::kCopy ||
      (cell.by == TensorCell::Writer::kProduct && cell.accumulator == access.accumulator);
  return is_pair && thread.tensor.order[cell.writer] >= cell.write_step;
}

void CheckWritten(const TensorCell& cell, std::uint32_t lane, std::uint32_t column,
                  const char* what, const CallSite& site) {
  if (cell.by != TensorCell::Writer::kNobody) return;
  Fail(Violation::kUnwritten, site,
       absl::StrCat(what, " of ", Describe(lane, column), ", which holds ",
                    DescribeWriter(cell.by)));
}

void CheckFollowsWrite(const TensorCell& cell, std::uint32_t lane, std::uint32_t column,
                       const TensorAccess& access, const char* what, const CallSite& site) {
  const Thread& thread = CurrentThread();
  if (cell.by == TensorCell::Writer::kNobody || !CurrentGrid().options.check_order ||
      IsInView(thread, cell.writer, cell.write_step) || IsPipelined(thread, cell, access)) {
    return;
  }
  const bool is_known = thread.knows.IsFinished(cell.writer, cell.write_step);
  Fail(is_known ? Violation::kMissingFence : Violation::kNotLanded, site,
       absl::StrCat(what, " of ", Describe(lane, column), ", which holds ", DescribeWriter(cell.by),
                    " (line ", cell.writer_line, "): ",
                    is_known ? "no tcgen05.fence::after_thread_sync between them"
                             : "it is not known to be complete"));
}

void CheckFollowsReader(const TensorCell::Reader& reader, std::uint32_t lane, std::uint32_t column,
                        const char* what, const CallSite& site) {
  const Thread& thread = CurrentThread();
  if (IsInView(thread, reader.agent, reader.step)) return;
  const bool is_known = thread.knows.IsFinished(reader.agent, reader.step);
  Fail(is_known ? Violation::kMissingFence : Violation::kRace, site,
       absl::StrCat(what, " of ", Describe(lane, column), " is not ordered after a read of it",
                    is_known ? ": no tcgen05.fence::after_thread_sync between them"
                             : ": no tcgen05.wait and fence::before_thread_sync, or no barrier"));
}

template <typename F>
void ForEachReader(const TensorCell& cell, F f) {
  if (cell.is_read) f(cell.reader);
  for (const TensorCell::Reader& reader : cell.more_readers) f(reader);
}

template <typename F>
void ForEachCell(const TensorBox& box, F f) {
  TensorMemory& memory = TensorMemoryOf(*box.block);
  for (std::uint32_t column = box.column; column < box.column + box.columns; ++column) {
    TensorCell* cell = &memory.cells[std::size_t{column} * kTensorLanes + box.lane];
    for (std::uint32_t i = 0; i < box.lanes; ++i) f(cell[i], box.lane + i, column);
  }
}

const TensorAllocation* AllocationOf(const TensorMemory& memory, std::uint32_t column) {
  for (const TensorAllocation& allocation : memory.allocations) {
    if (column - allocation.column < allocation.columns) return &allocation;
  }
  return nullptr;
}

// The lowest column, a multiple of the size, from which all are free in each of the memories;
// kTensorColumns where there is none.
std::uint32_t FindFree(const std::vector<TensorMemory*>& memories, std::uint32_t columns) {
  for (std::uint32_t first = 0; first < kTensorColumns; first += columns) {
    const bool is_free = std::all_of(memories.begin(), memories.end(), [&](TensorMemory* memory) {
      for (const TensorAllocation& each : memory->allocations) {
        if (each.column < first + columns && first < each.column + each.columns) return false;
      }
      return true;
    });
    if (is_free) return first;
  }
  return kTensorColumns;
}

void Allocate(TensorMemory& memory, const TensorRequest& request, std::uint32_t column) {
  memory.allocations.push_back(
      {column, request.columns, request.thread->agent, request.thread->step()});
  const std::size_t cells = std::size_t{column + request.columns} * kTensorLanes;
  if (memory.cells.size() < cells) {
    memory.cells.resize(cells);
    memory.words.resize(cells, kPoison);
  }
}

// Each block of a pair gives back when it knows that both have their columns: on a B300 a dealloc
// ahead of the other block's alloc ends the launch (NVIDIA/cutlass issue 3435).
void CheckAllocated(const TensorMemory& memory, const TensorRequest& request) {
  const TensorAllocation* const allocation = AllocationOf(memory, request.column);
  if (allocation == nullptr) return;  // Free() says so
  const Thread& thread = *request.thread;
  if (thread.knows.IsFinished(allocation->by, allocation->at)) return;
  Fail(Violation::kRace, request.site,
       absl::StrCat("tcgen05.dealloc of column ", request.column, " of tensor memory, whose ",
                    "allocation, of all blocks, is not ordered before this"));
}

// Nobody may have anything under way in what is given back.
void CheckIdle(Block& block, const TensorRequest& request) {
  const Knowledge& knows = request.thread->knows;
  const VectorClock& view = request.thread->tensor.view;
  const auto check = [&](Agent agent, Step step, std::uint32_t lane, std::uint32_t column) {
    if (knows.IsFinished(agent, step) || view[agent] >= step) return;
    Fail(Violation::kRace, request.site,
         absl::StrCat("tcgen05.dealloc of ", Describe(lane, column),
                      ", which is still in use: no wait for it, no fence::before_thread_sync or ",
                      "no barrier"));
  };
  ForEachCell({&block, 0, kTensorLanes, request.column, request.columns},
              [&](const TensorCell& cell, std::uint32_t lane, std::uint32_t column) {
                if (cell.by != TensorCell::Writer::kNobody) {
                  check(cell.writer, cell.write_step, lane, column);
                }
                ForEachReader(cell, [&](const TensorCell::Reader& reader) {
                  check(reader.agent, reader.step, lane, column);
                });
              });
}

void Free(Block& block, const TensorRequest& request) {
  TensorMemory& memory = TensorMemoryOf(block);
  const auto found =
      std::find_if(memory.allocations.begin(), memory.allocations.end(), [&](const auto& each) {
        return each.column == request.column && each.columns == request.columns;
      });
  if (found == memory.allocations.end()) {
    Fail(Violation::kBadOperand, request.site,
         absl::StrCat("tcgen05.dealloc of ", request.columns, " columns from ", request.column,
                      ", which no alloc gave"));
  }
  if (CurrentGrid().options.check_order) CheckIdle(block, request);
  memory.allocations.erase(found);
  ForEachCell({&block, 0, kTensorLanes, request.column, request.columns},
              [&](TensorCell& cell, std::uint32_t lane, std::uint32_t column) {
                cell = TensorCell();
                TensorWord(block, lane, column) = kPoison;
              });
}

// The first request of that kind.
TensorRequest* FirstRequest(const TensorMemory& memory, bool allocates) {
  for (TensorRequest* request : memory.requests) {
    if (request->allocates == allocates) return request;
  }
  return nullptr;
}

// Serves the first request of that kind of each block together; false where it has to wait.
bool Serve(const std::vector<Block*>& blocks, bool allocates) {
  std::vector<TensorMemory*> memories;
  std::vector<TensorRequest*> requests;
  for (Block* block : blocks) {
    memories.push_back(&TensorMemoryOf(*block));
    requests.push_back(FirstRequest(*memories.back(), allocates));
    if (requests.back() == nullptr) return false;
  }
  const TensorRequest& first = *requests.front();
  const TensorRequest& last = *requests.back();
  if (first.columns != last.columns || (!allocates && first.column != last.column)) {
    Fail(Violation::kBadOperand, last.site, "tcgen05.alloc or dealloc differs in a pair's blocks");
  }
  if (!allocates && CurrentGrid().options.check_order) {
    for (const TensorRequest* request : requests) {
      for (const TensorMemory* memory : memories) CheckAllocated(*memory, *request);
    }
  }
  std::uint32_t column = first.column;
  if (allocates) {
    column = FindFree(memories, first.columns);
    if (column == kTensorColumns) return false;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    TensorRequest& request = *requests[i];
    if (allocates) {
      Allocate(*memories[i], request, column);
    } else {
      Free(*blocks[i], request);
    }
    request.column = column;
    request.is_done = true;
    auto& waiting = memories[i]->requests;
    waiting.erase(std::find(waiting.begin(), waiting.end(), &request));
    Wake(*request.thread);
  }
  return true;
}

}  // namespace

TensorMemory& TensorMemoryOf(Block& block) {
  if (block.tensor_memory == nullptr) block.tensor_memory = std::make_shared<TensorMemory>();
  return *block.tensor_memory;
}

std::uint32_t& TensorWord(Block& block, std::uint32_t lane, std::uint32_t column) {
  return TensorMemoryOf(block).words[std::size_t{column} * kTensorLanes + lane];
}

void CheckTensorBox(const TensorBox& box, const char* what, const CallSite& site) {
  if (box.lane + box.lanes > kTensorLanes || box.column + box.columns > kTensorColumns) {
    Fail(Violation::kOutOfBounds, site,
         absl::StrCat(what, ": ", box.lanes, " lanes from ", box.lane, ", ", box.columns,
                      " columns from ", box.column, " of tensor memory"));
  }
  const TensorMemory& memory = TensorMemoryOf(*box.block);
  for (std::uint32_t column = box.column; column < box.column + box.columns;) {
    const TensorAllocation* const allocation = AllocationOf(memory, column);
    if (allocation == nullptr) {
      Fail(Violation::kOutOfBounds, site,
           absl::StrCat(what, ": column ", column, " of tensor memory is not allocated"));
    }
    if (CurrentGrid().options.check_order &&
        CurrentThread().knows.generic[allocation->by] < allocation->at) {
      Fail(Violation::kRace, site,
           absl::StrCat(what, ": the allocation of column ", column,
                        " of tensor memory is not ordered before this"));
    }
    column = allocation->column + allocation->columns;
  }
}

void CheckTensorRead(const TensorBox& box, const TensorAccess& access, const char* what,
                     const CallSite& site) {
  const VectorClock& view = CurrentThread().tensor.view;
  ForEachCell(box, [&](TensorCell& cell, std::uint32_t lane, std::uint32_t column) {
    CheckWritten(cell, lane, column, what, site);
    CheckFollowsWrite(cell, lane, column, access, what, site);
    // Readers that this one is ordered after are forgotten, as in happens_before.cc.
    const auto is_old = [&](const TensorCell::Reader& reader) {
      return reader.agent == access.agent || view[reader.agent] >= reader.step;
    };
    cell.more_readers.erase(
        std::remove_if(cell.more_readers.begin(), cell.more_readers.end(), is_old),
        cell.more_readers.end());
    if (cell.is_read && !is_old(cell.reader)) {
      cell.more_readers.push_back({access.agent, access.step});
      return;
    }
    cell.is_read = true;
    cell.reader = {access.agent, access.step};
  });
}

void CheckTensorWrite(const TensorBox& box, const TensorAccess& access, const char* what,
                      const CallSite& site) {
  const bool check_order = CurrentGrid().options.check_order;
  ForEachCell(box, [&](TensorCell& cell, std::uint32_t lane, std::uint32_t column) {
    if (access.adds) CheckWritten(cell, lane, column, what, site);
    CheckFollowsWrite(cell, lane, column, access, what, site);
    if (cell.is_read) {
      if (check_order) {
        ForEachReader(cell, [&](const TensorCell::Reader& reader) {
          CheckFollowsReader(reader, lane, column, what, site);
        });
      }
      cell.is_read = false;
      cell.more_readers.clear();
    }
    cell.by = access.by;
    cell.writer = static_cast<ShortAgent>(access.agent);
    cell.write_step = access.step;
    cell.writer_line = static_cast<std::uint16_t>(site.line);
    cell.accumulator = access.accumulator;
  });
}

void ServeTensorRequests(Block& block, std::uint32_t group) {
  std::vector<Block*> blocks = {&block};
  if (group == 2) {
    Block& peer = BlockOfRank(*block.cluster, block.rank ^ 1);
    blocks.insert(block.rank % 2 == 0 ? blocks.end() : blocks.begin(), &peer);
  }
  // Another warp may wait for columns that are given back.
  while (Serve(blocks, false) || Serve(blocks, true)) {
  }
}

}  // namespace gemmd::emulator
