// Tensor memory with a shadow that checks every access.
//
// PTX ISA, "Tensor Memory": each block has 128 lanes by 512 columns of 4 bytes; an address has the
// lane in bits 16 and up, the column below; columns are allocated, whole, in powers of two from 32.
//
// Each cell remembers its last write and the reads since, as happens_before.h does for shared
// memory, but steps are those of engines: of a thread's products and copies, over where a commit
// says so, and of its loads. An access must follow
//
//   the last write    in the thread's view (Thread::tensor.view), or, of products and of the
//                     copies ahead of them, in the order that they were issued in where that pair
//                     is pipelined (below)
//   every read since  in the thread's view, where it writes
//
// A thread's view has the operations that it waited for itself; those of others come there from its
// clocks by fence::after_thread_sync alone. PTX ISA, "Memory Consistency Model for 5th generation
// of TensorCore operations": the pipelined pairs that are emulated are mma and mma with the same
// accumulator and shape, and cp and mma.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

constexpr std::uint32_t kTensorLanes = 128;
constexpr std::uint32_t kTensorColumns = 512;
constexpr std::uint32_t kTensorLaneShift = 16;

// Shadow of one cell.
struct TensorCell {
  enum class Writer : std::uint8_t { kNobody, kProduct, kCopy };
  struct Reader {
    Agent agent;
    Step step;
  };

  Step write_step = 0;
  ShortAgent writer = 0;
  std::uint16_t writer_line = 0;
  std::uint16_t accumulator = 0;  // of a product: which, TensorMemory::accumulators
  Writer by = Writer::kNobody;
  bool is_read = false;
  Reader reader = {};
  std::vector<Reader> more_readers;  // one is usual
};

struct TensorAllocation {
  std::uint32_t column;
  std::uint32_t columns;
  Agent by;  // thread
  Step at;
};

// The accumulator, shape and kind that pipelined products share.
struct Accumulator {
  std::uint32_t address;
  std::uint32_t rows;
  std::uint32_t columns;
  std::uint32_t group;  // blocks
  bool is_f16;
  bool is_scaled;  // of another kind

  bool operator==(const Accumulator& other) const {
    return address == other.address && rows == other.rows && columns == other.columns &&
           group == other.group && is_f16 == other.is_f16 && is_scaled == other.is_scaled;
  }
};

// A warp that waits in alloc or dealloc; in the frame of its lane 0.
struct TensorRequest {
  bool allocates;
  std::uint32_t columns;
  std::uint32_t column;  // granted, or to free
  bool is_done;
  Thread* thread;
  CallSite site;
};

// The memory of one block; Block::tensor_memory.
struct TensorMemory {
  // Both by column * kTensorLanes + lane, as far as columns have ever been allocated.
  std::vector<std::uint32_t> words;
  std::vector<TensorCell> cells;
  std::vector<TensorAllocation> allocations;
  std::vector<TensorRequest*> requests;
  std::vector<Accumulator> accumulators;
  std::vector<OperationId> copies;                // that have not landed when last seen
  std::uint32_t fewest_columns = kTensorColumns;  // of an allocation until now
  bool is_relinquished = false;
};

TensorMemory& TensorMemoryOf(Block& block);

// A rectangle of a block's cells.
struct TensorBox {
  Block* block;
  std::uint32_t lane;
  std::uint32_t lanes;
  std::uint32_t column;
  std::uint32_t columns;
};

// An access, over at `step` of `agent`.
struct TensorAccess {
  Agent agent;
  Step step;
  TensorCell::Writer by;          // kNobody: a load
  std::uint16_t accumulator = 0;  // of a product
  bool adds = false;              // a write that needs what is there
};

// Each ends the launch on a violation. The running thread issues the access; `what` names it.
// All cells must lie in columns that are allocated, to its knowledge.
void CheckTensorBox(const TensorBox& box, const char* what, const CallSite& site);
void CheckTensorRead(const TensorBox& box, const TensorAccess& access, const char* what,
                     const CallSite& site);
void CheckTensorWrite(const TensorBox& box, const TensorAccess& access, const char* what,
                      const CallSite& site);

// A cell's word. REQUIRES: it was checked.
std::uint32_t& TensorWord(Block& block, std::uint32_t lane, std::uint32_t column);

// Serves what can be of the requests of a block, or of its pair where `group` is 2.
void ServeTensorRequests(Block& block, std::uint32_t group);

}  // namespace gemmd::emulator
