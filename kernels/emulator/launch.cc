#include "kernels/emulator/launch.h"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/emulator/instructions/tensor_memory.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"
#include "kernels/emulator/memory/async_engine.h"
#include "kernels/emulator/memory/bank_conflicts.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kMaxThreads = 1024;
constexpr std::uint32_t kMaxShared = 227 * 1024;
constexpr std::uint32_t kMaxCluster = 8;

// Leaves a function that runs outside any fiber after Fail() has filled the report.
struct Aborted : std::exception {};

std::string Place(const Grid& grid, const CallSite& site) {
  std::string text = absl::StrCat("kernel ", grid.request->kernel);
  if (grid.running != nullptr) {
    const Block& block = *grid.running->block;
    absl::StrAppend(&text, ", block (", block.index.x, ", ", block.index.y, ")");
    if (block.cluster->blocks.size() > 1) absl::StrAppend(&text, " of rank ", block.rank);
    absl::StrAppend(&text, ", thread ", grid.running->index);
  }
  if (site.line != 0) {
    const std::string file = site.file;
    absl::StrAppend(&text, ", ", file.substr(file.rfind('/') + 1), ":", site.line);
  }
  return text;
}

void SetReport(Grid& grid, Violation violation, const CallSite& site, const std::string& what) {
  if (!grid.report.ok()) return;
  grid.report.violation = violation;
  grid.report.message = absl::StrCat(Name(violation), ": ", what, " [", Place(grid, site), "]");
}

std::string LaunchError(const LaunchRequest& request) {
  if (request.threads == 0 || request.threads > kMaxThreads || request.threads % kWarpSize != 0) {
    return absl::StrCat(request.threads, " threads a block");
  }
  if (request.cluster_size == 0 || request.cluster_size > kMaxCluster) {
    return absl::StrCat("clusters of ", request.cluster_size, " blocks");
  }
  if (request.grid.x == 0 || request.grid.y == 0 || request.grid.x % request.cluster_size != 0) {
    return absl::StrCat("a grid of ", request.grid.x, "x", request.grid.y,
                        " blocks in clusters of ", request.cluster_size);
  }
  if (request.shared_bytes > kMaxShared) {
    return absl::StrCat(request.shared_bytes, " bytes of shared memory");
  }
  return "";
}

// Runs once a thread has returned from the kernel.
void CheckThreadExit(Thread& thread) {
  const CallSite nowhere;
  if (!thread.open_copies.empty()) {
    Fail(Violation::kUnfinished, thread.open_copies.front().site,
         "a thread exits with a cp.async that was never committed");
  }
  for (const auto& group : thread.copy_groups) {
    if (group.empty()) continue;
    Fail(Violation::kUnfinished, group.front().site,
         "a thread exits with a cp.async that it did not wait for");
  }
  if (!thread.open_bulk.empty() || thread.bulk_read < thread.bulk_committed) {
    Fail(Violation::kUnfinished, nowhere,
         "a thread exits while its bulk stores may still read shared memory");
  }
  if (!thread.tensor.flying_loads.empty()) {
    Fail(Violation::kUnfinished, nowhere,
         "a thread exits with a tcgen05.ld that it did not wait for");
  }
  for (const Warpgroup& group : thread.block->warpgroups) {
    if (group.flying.empty() ||
        thread.index / kWarpgroupSize !=
            static_cast<std::uint32_t>(&group - thread.block->warpgroups.data())) {
      continue;
    }
    Fail(Violation::kUnfinished, nowhere, "a thread exits with a wgmma that it did not wait for");
  }
}

void CheckBlockExit(Block& block) {
  for (const auto& [address, barrier] : block.mbarriers) {
    if (barrier.transaction_bytes == 0) continue;
    Fail(Violation::kUnfinished, CallSite(),
         absl::StrCat("a block exits while mbarrier ", DescribeShared(address), " expects ",
                      barrier.transaction_bytes, " more bytes"));
  }
  if (block.tensor_memory != nullptr) {
    for (const TensorAllocation& allocation : block.tensor_memory->allocations) {
      Fail(Violation::kUnfinished, CallSite(),
           absl::StrCat("a block exits with ", allocation.columns,
                        " columns of tensor memory that no tcgen05.dealloc gave back"));
    }
  }
  block.exited = true;
}

void RunThread(Thread& thread, absl::FunctionRef<void()> body) {
  body();
  CheckThreadExit(thread);
  Block& block = *thread.block;
  block.at_exit.Join(thread.knows.generic);
  thread.state = Thread::State::kDone;
  --thread.warp->ready;
  --block.cluster->live_threads;
  if (--block.live_threads == 0) CheckBlockExit(block);
}

std::unique_ptr<Cluster> MakeCluster(Grid& grid, std::uint64_t number,
                                     absl::FunctionRef<void()> body) {
  const LaunchRequest& request = *grid.request;
  const std::uint32_t blocks = request.cluster_size;
  const std::uint32_t threads = request.threads;
  auto cluster = std::make_unique<Cluster>();
  cluster->grid = &grid;
  cluster->live_threads = blocks * threads;
  cluster->agents = blocks * threads;
  cluster->blocks = std::vector<Block>(blocks);
  cluster->warps = std::vector<Warp>(std::size_t{blocks} * threads / kWarpSize);
  cluster->number = static_cast<std::uint32_t>(number);
  cluster->threads = std::vector<Thread>(std::size_t{blocks} * threads);
  const std::uint64_t across = request.grid.x / blocks;
  for (std::uint32_t rank = 0; rank < blocks; ++rank) {
    Block& block = cluster->blocks[rank];
    block.cluster = cluster.get();
    block.rank = rank;
    block.index = {static_cast<std::uint32_t>(number % across) * blocks + rank,
                   static_cast<std::uint32_t>(number / across)};
    block.live_threads = threads;
    block.shared.assign(request.shared_bytes, 0xff);  // NaN in every float format
    block.cells.resize((request.shared_bytes + 3) / 4);
    block.warpgroups.resize((threads + kWarpgroupSize - 1) / kWarpgroupSize);
  }
  for (std::uint32_t i = 0; i < cluster->threads.size(); ++i) {
    Thread& thread = cluster->threads[i];
    thread.agent = i;
    thread.index = i % threads;
    thread.lane = thread.index % kWarpSize;
    thread.block = &cluster->blocks[i / threads];
    thread.warp = &cluster->warps[i / kWarpSize];
    thread.warp->block = thread.block;
    thread.warp->first_agent = i - thread.lane;
    thread.knows.generic.Raise(i, 1);
    thread.fiber.Start([&thread, body] { RunThread(thread, body); });
  }
  return cluster;
}

void CheckRemoteArrivals(const Cluster& cluster) {
  for (const Block& block : cluster.blocks) {
    for (const auto& [agent, step] : block.remote_arrivals) {
      if (block.at_exit[agent] >= step) continue;
      const Thread& thread = cluster.threads[agent];
      Fail(Violation::kRace, CallSite(),
           absl::StrCat("the block of rank ", block.rank, " may exit before thread ", thread.index,
                        " of rank ", thread.block->rank,
                        " reaches its shared memory: no cluster barrier orders them"));
    }
  }
}

// A tcgen05.commit that arrives when the mbarrier's block is gone arrives in memory that may by
// then be another block's. Commits come in no order, so that a later one tells nothing of it: a
// thread of the block must know of the phase that has the arrival.
void CheckCommitsEnded(const Cluster& cluster) {
  for (const Block& block : cluster.blocks) {
    for (const auto& [agent, phase] : block.committed_phases) {
      if (block.at_exit[agent] >= phase) continue;
      Fail(Violation::kUnfinished, CallSite(),
           absl::StrCat("the block of rank ", block.rank, " may exit before a tcgen05.commit ",
                        "arrives there: no thread of it waits for the phase"));
    }
  }
}

// A block that exits while a bulk copy to its shared memory is still in flight leaves memory that
// may by then be another block's. So each copy must be known to a thread of the block that it
// fills, by its mbarrier or by whoever waited for that; cells remember the last copy to each.
void CheckBulkCopiesEnded(const Cluster& cluster) {
  const std::size_t threads = cluster.threads.size() / cluster.blocks.size();
  for (const Block& block : cluster.blocks) {
    const auto first = cluster.threads.begin() + static_cast<std::ptrdiff_t>(block.rank * threads);
    const auto last = first + static_cast<std::ptrdiff_t>(threads);
    // Neighbouring cells mostly belong to one copy: the last one that was found to be known.
    Agent agent = 0;
    Step step = 0;
    for (std::size_t i = 0; i < block.cells.size(); ++i) {
      const Cell& cell = block.cells[i];
      if (cell.state != Cell::State::kAsync) continue;
      if (cell.writer == agent && cell.write_step <= step) continue;
      const bool is_known = std::any_of(first, last, [&cell](const Thread& thread) {
        return thread.knows.IsFinished(cell.writer, cell.write_step);
      });
      if (!is_known) {
        Fail(Violation::kUnfinished, CallSite(),
             absl::StrCat("the block of rank ", block.rank, " may exit before a bulk copy (line ",
                          cell.writer_line, ") lands at shared+", 4 * i,
                          ": no thread of the block waits for it"));
      }
      agent = cell.writer;
      step = cell.write_step;
    }
  }
}

std::string DescribeWait(const Thread& thread) {
  const WaitReason& reason = thread.waiting_for;
  const std::string file = reason.site.file;
  std::string text = reason.what;
  if (reason.is_mbarrier) {
    const auto offset = static_cast<std::int64_t>(reason.address & kOffsetMask) - kSharedBase;
    absl::StrAppend(&text, " shared+", offset, " of block rank ", thread.block->rank, ", parity ",
                    reason.value);
  } else if (reason.value != 0) {
    absl::StrAppend(&text, " (", reason.value, ")");
  }
  absl::StrAppend(&text, " at ", file.substr(file.rfind('/') + 1), ":", reason.site.line);
  return text;
}

std::string DescribeDeadlock(const Grid& grid) {
  // Threads that wait for the same at the same place are one line.
  std::map<std::string, std::pair<int, std::string>> waits;
  for (const auto& cluster : grid.resident) {
    for (const Thread& thread : cluster->threads) {
      if (thread.state != Thread::State::kBlocked) continue;
      const std::string key = DescribeWait(thread);
      auto& [count, first] = waits[key];
      if (count++ == 0) {
        first = absl::StrCat("block (", thread.block->index.x, ", ", thread.block->index.y,
                             ") thread ", thread.index);
      }
    }
  }
  std::string text = "every thread waits:";
  for (const auto& [key, wait] : waits) {
    absl::StrAppend(&text, " ", wait.first, " for ", key, " (first ", wait.second, ");");
  }
  return text;
}

void RunWarp(Grid& grid, Warp& warp) {
  Cluster& cluster = *warp.block->cluster;
  for (std::uint32_t lane = 0; lane < kWarpSize && grid.report.ok(); ++lane) {
    Thread& thread = cluster.threads[warp.first_agent + lane];
    if (thread.state != Thread::State::kReady) continue;
    grid.running = &thread;
    thread.fiber.Resume();
    lane = grid.running->lane;  // a lane that blocks runs the next one itself
    grid.running = nullptr;
  }
}

void FinishCluster(Grid& grid, const Cluster& cluster) {
  LandAll(grid, cluster);
  if (grid.options.check_order) {
    CheckRemoteArrivals(cluster);
    CheckCommitsEnded(cluster);
    CheckBulkCopiesEnded(cluster);
  }
  CountUnfinishedAccesses(grid, cluster);
}

void RunGrid(Grid& grid, absl::FunctionRef<void()> body) {
  const LaunchRequest& request = *grid.request;
  const std::uint64_t clusters =
      static_cast<std::uint64_t>(request.grid.x) / request.cluster_size * request.grid.y;
  std::uint64_t started = 0;
  std::vector<Warp*> ready;
  while (grid.report.ok()) {
    for (auto it = grid.resident.begin(); it != grid.resident.end();) {
      if ((*it)->live_threads > 0) {
        ++it;
        continue;
      }
      FinishCluster(grid, **it);
      it = grid.resident.erase(it);
    }
    while (started < clusters &&
           grid.resident.size() < static_cast<std::size_t>(grid.options.resident_clusters)) {
      grid.resident.push_back(MakeCluster(grid, started++, body));
    }
    if (grid.resident.empty()) return;
    ready.clear();
    for (const auto& cluster : grid.resident) {
      for (Warp& warp : cluster->warps) {
        if (warp.ready > 0) ready.push_back(&warp);
      }
    }
    const bool is_random = grid.options.landing == Landing::kRandom;
    if (!grid.operations.empty() && (ready.empty() || (is_random && grid.random() % 4 == 0))) {
      LandOne(grid);
      continue;
    }
    if (ready.empty()) {
      SetReport(grid, Violation::kDeadlock, CallSite(), DescribeDeadlock(grid));
      return;
    }
    if (++grid.report.statistics.turns > grid.options.turn_limit) {
      SetReport(grid, Violation::kNoProgress, CallSite(),
                absl::StrCat("still running after ", grid.options.turn_limit, " warp turns"));
      return;
    }
    RunWarp(grid, *ready[grid.random() % ready.size()]);
  }
}

}  // namespace

__thread Grid* current_grid = nullptr;

void YieldCurrent() { CurrentThread().fiber.Suspend(); }

bool IsSkippedBy(CallWatch& watch, const CallSite& site) {
  const std::string_view file = site.file;
  watch.met.emplace(file, site.line);
  const std::string& skipped = watch.skipped_file;
  return !skipped.empty() && site.line >= watch.first_line && site.line <= watch.last_line &&
         absl::EndsWith({file.data(), file.size()}, skipped);
}

Agent NewAgent(Cluster& cluster) {
  if (cluster.agents == kMostAgents) {
    Fail(Violation::kBadLaunch, CallSite(),
         absl::StrCat("more than ", kMostAgents, " mbarriers and other engines in a cluster"));
  }
  return cluster.agents++;
}

void Fail(Violation violation, const CallSite& site, const std::string& what) {
  Grid& grid = CurrentGrid();
  SetReport(grid, violation, site, what);
  if (grid.running == nullptr) throw Aborted();
  // Never resumed: the fiber is unwound when its cluster goes.
  while (true) YieldCurrent();
}

std::string DescribeShared(std::uint32_t address) {
  const std::int64_t offset = static_cast<std::int64_t>(address & kOffsetMask) - kSharedBase;
  std::string text = absl::StrCat("shared", offset < 0 ? "" : "+", offset);
  if (OnThread() && CurrentThread().block->rank != RankOf(address)) {
    absl::StrAppend(&text, " of block rank ", RankOf(address));
  }
  return text;
}

Report Launch(const LaunchRequest& request, const Options& options,
              absl::FunctionRef<void()> body) {
  Grid grid;
  grid.request = &request;
  grid.options = options;
  grid.random.seed(options.seed);
  current_grid = &grid;
  const std::string error = LaunchError(request);
  if (!error.empty()) {
    SetReport(grid, Violation::kBadLaunch, CallSite(), error);
  } else {
    try {
      RunGrid(grid, body);
      // NOLINTNEXTLINE(bugprone-empty-catch): the report says why.
    } catch (const Aborted&) {
    }
  }
  grid.operations.clear();
  grid.resident.clear();  // unwinds what has not returned
  current_grid = nullptr;
  return std::move(grid.report);
}

}  // namespace gemmd::emulator
