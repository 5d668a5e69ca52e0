// The parts of a launch: a grid of clusters of blocks of warps of threads, each with the state that
// instructions change. Behaviour lives in the files named beside each part; nothing outside
// kernels/emulator/ includes this header.
//
// Not thread-safe: a launch runs on one OS thread, and each OS thread has its own.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/machine/clocks.h"
#include "kernels/emulator/machine/fiber.h"
#include "kernels/emulator/options.h"

namespace gemmd::emulator {

// A shared-memory address: the block's rank in its cluster in bits 24 and up, and
// below it the offset in the block's window. Shared memory starts at kSharedBase, so
// that address 0 is never valid; it is aligned to 1024 bytes as on a GPU.
constexpr std::uint32_t kSharedBase = 1024;
constexpr std::uint32_t kRankShift = 24;
constexpr std::uint32_t kOffsetMask = (1u << kRankShift) - 1;
constexpr std::uint32_t kWarpSize = 32;
constexpr std::uint32_t kWarpgroupSize = 128;
constexpr int kNamedBarriers = 16;

struct Block;
struct Cluster;
struct Grid;
struct Thread;
struct Warp;

// ------------------------------------------------------------ shared memory

// An agent's number where there are many of them; a cluster has fewer (NewAgent()).
using ShortAgent = std::uint16_t;
constexpr Agent kMostAgents = 65535;

// Shadow of four bytes of shared memory (happens_before.h). Small, since reading it is what
// checking an access costs.
struct Cell {
  enum class State : std::uint8_t { kUnwritten, kGeneric, kAsync, kInFlight, kMbarrier };
  struct __attribute__((packed, aligned(2))) Reader {
    Step step;
    ShortAgent agent;
  };
  static constexpr int kInlineReaders = 4;

  Step write_step = 0;
  ShortAgent writer = 0;
  std::uint16_t writer_line = 0;
  State state = State::kUnwritten;
  std::uint8_t readers = 0;  // of `reader`; more are in Block::more_readers
  bool has_more_readers = false;
  std::array<Reader, kInlineReaders> reader;
};

// ------------------------------------------------------------ synchronisation

// A barrier that threads arrive at: __syncthreads, bar.sync, barrier.cluster
// (barriers.h).
struct Barrier {
  std::uint32_t expected = 0;
  std::uint32_t arrived = 0;
  Knowledge joined;     // of everyone who has arrived
  Knowledge completed;  // of the generation before, for barrier.cluster.wait
  std::vector<Thread*> waiting;
  std::uint64_t generation = 0;
};

// mbarrier.h
struct Mbarrier {
  Agent agent = 0;
  std::uint32_t count = 0;
  std::int64_t pending = 0;
  std::int64_t transaction_bytes = 0;
  std::int64_t bytes_in_flight = 0;  // of copies issued and not landed
  Step phase = 0;                    // completed phases
  Knowledge collecting;              // of those who arrived in the current phase
  Knowledge completed;               // of those who arrived in completed ones
  Knowledge collecting_cluster;      // of other blocks' threads that release to the cluster
  Knowledge completed_cluster;
  std::vector<Thread*> waiting;
  Agent initialiser = 0;
  Step initialised_at = 0;
};

// ------------------------------------------------------------ asynchronous work

// cp.async of one thread (copy_async.h).
struct ThreadCopy {
  std::uint32_t destination = 0;
  const void* source = nullptr;
  std::uint32_t size = 0;   // bytes written
  std::uint32_t bytes = 0;  // of them read from the source; the rest become zero
  CallSite site;
  bool landed = false;
};

using OperationId = std::uint64_t;

// An operation that lands later (async_engine.h).
struct Operation {
  OperationId id = 0;
  // Operations of one channel land in the order they were issued; 0 is no channel.
  std::uint64_t channel = 0;
  Cluster* cluster = nullptr;
  std::function<void()> land;
};

// Bulk stores that one bulk.commit_group closed over (tensor_copy.h).
struct BulkGroup {
  std::vector<OperationId> reads;   // of shared memory
  std::vector<OperationId> writes;  // of global memory
};

// Registers that wgmma has in flight (wgmma.cc).
struct AccumulatorTile;
struct FlyingAccumulator {
  Step group = 0;
  std::vector<float*> thread_array;  // where each thread's registers lie
  std::shared_ptr<AccumulatorTile> tile;
};
// A's fragments, which the threads may not write before the wait.
struct FlyingFragments {
  Step group = 0;
  CallSite site;
  std::array<const std::uint32_t*, kWarpgroupSize> thread_array{};
  std::array<std::array<std::uint32_t, 4>, kWarpgroupSize> words{};
};

struct GlobalOrder;   // global_order.cc
struct TensorMemory;  // tensor_memory.h

// Operations of tcgen05 that one thread issues, of one kind: its steps are those operations.
struct TensorEngine {
  Agent agent = 0;
  bool has_agent = false;
  Step issued = 0;
  Step done = 0;  // of loads: those that a wait is behind
};

// A tcgen05.ld whose registers have not been waited for.
struct FlyingTensorLoad {
  std::uint32_t* registers;
  std::vector<std::uint32_t> words;
};

// A thread's operations under way in tensor memory (tcgen05.h), and what it knows of others there.
struct TensorWork {
  TensorEngine products;  // and copies
  TensorEngine loads;
  std::vector<OperationId> product_operations;  // that have not landed when last seen
  std::vector<FlyingTensorLoad> flying_loads;
  // Steps of everybody's engines that are over, for tcgen05 instructions that follow.
  VectorClock view;
  // Products and copies that were issued before those that follow, over or not.
  VectorClock order;
};

struct Warpgroup {
  std::uint32_t arrived = 0;
  const char* operation = "";
  CallSite site;
  std::array<void*, kWarpgroupSize> operand{};
  Agent agent = 0;
  bool has_agent = false;
  Step open_group = 1;
  std::vector<std::pair<Step, OperationId>> operations;
  std::map<float*, FlyingAccumulator> flying;  // by thread 0's registers
  std::vector<FlyingFragments> flying_fragments;
  // setmaxnreg (registers.cc)
  std::uint32_t registers = 0;  // a thread
  std::vector<Step> set_at;     // each thread's step at the last setmaxnreg
};

// ------------------------------------------------------------ threads

// The reason why a blocked thread waits; made a sentence only in a report.
struct WaitReason {
  const char* what = "";
  CallSite site;
  bool is_mbarrier = false;
  std::uint32_t address = 0;  // of the mbarrier
  std::uint32_t value = 0;    // its parity, a count of threads, ...
};

struct Thread {
  enum class State : std::uint8_t { kReady, kBlocked, kDone };

  State state = State::kReady;
  Agent agent = 0;          // index in the cluster
  std::uint32_t index = 0;  // in the block
  std::uint32_t lane = 0;
  Warp* warp = nullptr;
  Block* block = nullptr;
  Fiber fiber;
  WaitReason waiting_for;  // while blocked
  Knowledge knows;
  Step step() const { return knows.generic[agent]; }

  std::vector<ThreadCopy> open_copies;
  std::deque<std::vector<ThreadCopy>> copy_groups;

  std::vector<std::pair<OperationId, OperationId>> open_bulk;  // read, write
  std::deque<BulkGroup> bulk_groups;
  Agent bulk_agent = 0;        // its steps are groups whose shared memory is read
  Agent bulk_write_agent = 0;  // its steps are groups whose global memory is written
  bool has_bulk_agent = false;
  Step bulk_committed = 0;
  Step bulk_read = 0;  // groups whose shared memory is known to be read

  TensorWork tensor;

  bool wgmma_fenced = false;
  bool cluster_arrived = false;
  std::uint64_t cluster_generation = 0;
};

struct PreparedRows;  // mma_sync.cc

struct Warp {
  Block* block = nullptr;
  std::uint32_t first_agent = 0;
  std::uint32_t ready = kWarpSize;
  std::uint32_t arrived = 0;
  const char* operation = "";
  CallSite site;
  std::array<void*, kWarpSize> operand{};
  std::shared_ptr<PreparedRows> last_rows;
};

struct Block {
  Cluster* cluster = nullptr;
  std::uint32_t rank = 0;
  Dimensions index;
  std::uint32_t live_threads = 0;
  bool exited = false;
  std::vector<std::uint8_t> shared;
  std::vector<Cell> cells;
  std::unordered_map<const Cell*, std::vector<Cell::Reader>> more_readers;
  std::array<Barrier, kNamedBarriers> barriers;
  std::map<std::uint32_t, Mbarrier> mbarriers;  // by address
  std::vector<Warpgroup> warpgroups;
  std::map<Agent, Step> remote_arrivals;   // last one of each thread of another block
  std::map<Agent, Step> committed_phases;  // last one of each mbarrier that has a tcgen05.commit
  VectorClock at_exit;                     // joined over the block's threads
  std::uint32_t free_registers = 0;        // what setmaxnreg.dec gave back
  std::vector<Thread*> waiting_for_registers;
  std::shared_ptr<TensorMemory> tensor_memory;  // once it is used
};

struct Cluster {
  Grid* grid = nullptr;
  std::uint32_t number = 0;  // in its launch
  std::uint32_t live_threads = 0;
  Agent agents = 0;  // threads first, then engines as they appear
  std::vector<Block> blocks;
  std::vector<Warp> warps;
  std::vector<Thread> threads;
  Barrier barrier;  // barrier.cluster
};

// One warp-wide pass of an instruction, as lanes reach it (bank_conflicts.h).
struct WarpAccess {
  std::uint32_t lanes = 0;
  std::uint32_t bytes = 0;
  std::array<std::uint32_t, kWarpSize> address{};
};

struct Grid {
  const LaunchRequest* request = nullptr;
  Options options;
  std::mt19937_64 random;
  std::list<std::unique_ptr<Cluster>> resident;
  std::vector<Operation> operations;
  OperationId next_operation = 1;
  std::shared_ptr<GlobalOrder> global_order;
  std::uint32_t tensor_group = 0;  // the kernel's .cta_group; 0 until an instruction says it
  Thread* running = nullptr;
  Report report;

  // Bank accounting: how often each lane passed each site, and unfinished passes.
  std::map<std::tuple<const Thread*, const char*, int>, std::uint64_t> passes;
  std::map<std::tuple<const Warp*, const char*, int, std::uint64_t>, WarpAccess> open_accesses;
};

// The launch that runs on this OS thread. REQUIRES: one does.
// __thread, since thread_local would call a function for each use in another file.
extern __thread Grid* current_grid;
inline Grid& CurrentGrid() { return *current_grid; }
// The thread whose fiber runs. REQUIRES: one does.
inline Thread& CurrentThread() { return *current_grid->running; }
inline bool OnThread() { return current_grid != nullptr && current_grid->running != nullptr; }

// Suspends the running thread until Wake().
inline __attribute__((always_inline)) void BlockCurrent(const WaitReason& reason) {
  Thread& thread = CurrentThread();
  // One by one, since a copy of the whole would wait for the stores that made `reason`.
  thread.waiting_for.what = reason.what;
  thread.waiting_for.site.file = reason.site.file;
  thread.waiting_for.site.line = reason.site.line;
  thread.waiting_for.is_mbarrier = reason.is_mbarrier;
  thread.waiting_for.address = reason.address;
  thread.waiting_for.value = reason.value;
  thread.state = Thread::State::kBlocked;
  --thread.warp->ready;
  // Straight to the next lane of the warp: half the switches of going by the scheduler.
  Thread* const last = &thread + (kWarpSize - 1 - thread.lane);
  for (Thread* next = &thread + 1; next <= last; ++next) {
    if (next->state != Thread::State::kReady) continue;
    CurrentGrid().running = next;
    thread.fiber.SwitchTo(next->fiber);
    return;
  }
  thread.fiber.Suspend();
}
inline void Wake(Thread& thread) {
  if (thread.state != Thread::State::kBlocked) return;
  thread.state = Thread::State::kReady;
  ++thread.warp->ready;
}
// Lets others run.
void YieldCurrent();

// Returns whether a synchronising call is to do nothing. The watch, if there is one, notes the
// call.
bool IsSkippedBy(CallWatch& watch, const CallSite& site);
inline bool IsSkipped(const CallSite& site) {
  CallWatch* const watch = CurrentGrid().options.watch;
  return watch != nullptr && IsSkippedBy(*watch, site);
}

inline Block& BlockOfRank(Cluster& cluster, std::uint32_t rank) { return cluster.blocks[rank]; }
inline std::uint32_t RankOf(std::uint32_t address) { return address >> kRankShift; }
Agent NewAgent(Cluster& cluster);

// A release: what the thread did so far belongs to steps up to the current one.
inline void BeginStep(Thread& thread) {
  thread.knows.generic.Raise(thread.agent, thread.step() + 1);
}

}  // namespace gemmd::emulator
