#include "kernels/emulator/instructions/tcgen05.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/instructions/tcgen05_shared.h"
#include "kernels/emulator/instructions/tensor_memory.h"
#include "kernels/emulator/machine/collectives.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"
#include "kernels/emulator/machine/peers.h"
#include "kernels/emulator/memory/async_engine.h"
#include "kernels/emulator/memory/happens_before.h"
#include "kernels/emulator/memory/mbarrier_engine.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kFewestColumns = 32;

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

}  // namespace

void CheckTensorLane(const TensorAddress& at, bool is_half, const char* what,
                     const CallSite& site) {
  if (at.lane == 0 || (is_half && at.lane == 16)) return;
  Fail(Violation::kMisaligned, site,
       absl::StrCat(what, ": lane ", at.lane, " of tensor memory, not 0", is_half ? " or 16" : ""));
}

// PTX ISA, "tcgen05.alloc": all instructions of a kernel have the same .cta_group, and whoever
// issues one of .cta_group::2 makes sure that the other block is launched.
void CheckTensorGroup(std::uint32_t group, const char* what, const CallSite& site) {
  Grid& grid = CurrentGrid();
  if (grid.tensor_group == 0) grid.tensor_group = group;
  if (grid.tensor_group != group) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": .cta_group::", group, ", where others of the kernel said ",
                      grid.tensor_group));
  }
  if (group == 1) return;
  const Block& block = *CurrentThread().block;
  if (block.cluster->blocks.size() % 2 != 0) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": .cta_group::2 in a cluster without pairs"));
  }
  CheckStarted(BlockOfRank(*block.cluster, block.rank ^ 1), what, site);
}

// This block, or those of its pair, even rank first.
std::vector<Block*> BlocksOfGroup(std::uint32_t group) {
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

void Tcgen05Alloc(std::uint32_t slot, std::uint32_t columns, std::uint32_t group,
                  const CallSite& site) {
  const char* what = "tcgen05.alloc";
  CheckTensorGroup(group, what, site);
  CheckColumns(columns, what, site);
  std::uint8_t* const bytes = OwnSharedBytes(slot, 4, 4, what, site);
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
    std::memcpy(bytes, &column, sizeof column);
  }
  JoinLanes({slot, columns}, what, site);
}

void Tcgen05Dealloc(std::uint32_t address, std::uint32_t columns, std::uint32_t group,
                    const CallSite& site) {
  const char* what = "tcgen05.dealloc";
  CheckTensorGroup(group, what, site);
  CheckColumns(columns, what, site);
  const TensorAddress at = SplitTensorAddress(address);
  CheckTensorLane(at, false, what, site);
  JoinLanes({address, columns}, what, site);
  if (CurrentThread().lane == 0) {
    Request({false, columns, at.column, false, nullptr, site}, group,
            "the other block of the pair (tcgen05.dealloc)");
  }
  JoinLanes({address, columns}, what, site);
}

void Tcgen05Relinquish(std::uint32_t group, const CallSite& site) {
  const char* what = "tcgen05.relinquish_alloc_permit";
  CheckTensorGroup(group, what, site);
  JoinLanes({0, 0}, what, site);
  TensorMemoryOf(*CurrentThread().block).is_relinquished = true;
}

void Tcgen05FenceBefore(const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  const TensorEngine& loads = thread.tensor.loads;
  if (loads.has_agent) thread.knows.generic.Raise(loads.agent, loads.done);
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
  CheckTensorGroup(group, what, site);
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
    BeginArrival(address, site);
    Post(cluster,
         [&cluster, address, arrival, site, operations = thread.tensor.product_operations] {
           for (const OperationId id : operations) LandNow(id);
           CompleteArrival(cluster, address, arrival, site);
         });
  }
}

}  // namespace gemmd::emulator
