#include "kernels/emulator/memory/happens_before.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/peers.h"

namespace gemmd::emulator {
namespace {

Block& BlockAt(std::uint32_t address, const char* what, const CallSite& site) {
  Cluster& cluster = *CurrentThread().block->cluster;
  if (RankOf(address) >= cluster.blocks.size()) {
    Fail(Violation::kOutOfBounds, site,
         absl::StrCat(what, ": no block of rank ", RankOf(address), " in a cluster of ",
                      cluster.blocks.size()));
  }
  return cluster.blocks[RankOf(address)];
}

// REQUIRES: bounds were checked.
Cell* CellAt(std::uint32_t address) {
  Block& block = CurrentThread().block->cluster->blocks[RankOf(address)];
  return &block.cells[((address & kOffsetMask) - kSharedBase) / 4];
}

std::uint32_t CellCount(std::uint32_t address, std::uint32_t bytes) {
  return (address + bytes + 3) / 4 - address / 4;
}

std::string DescribeAgent(Agent agent) {
  const Cluster& cluster = *CurrentThread().block->cluster;
  if (agent >= cluster.threads.size()) return "an asynchronous engine";
  const Thread& thread = cluster.threads[agent];
  return cluster.blocks.size() == 1
             ? absl::StrCat("thread ", thread.index)
             : absl::StrCat("thread ", thread.index, " of rank ", thread.block->rank);
}

const char* DescribeState(Cell::State state) {
  switch (state) {
    case Cell::State::kUnwritten:
      return "nothing that was ever written";
    case Cell::State::kGeneric:
      return "a store";
    case Cell::State::kAsync:
      return "bytes of a bulk copy";
    case Cell::State::kInFlight:
      return "bytes of a cp.async not waited for";
    case Cell::State::kMbarrier:
      return "an mbarrier object";
  }
  return "";
}

[[noreturn]] void FailOnWriter(Violation violation, const Cell& cell, std::uint32_t address,
                               const char* what, const char* detail, const CallSite& site) {
  std::string text = absl::StrCat(what, " of ", DescribeShared(address), ", which holds ",
                                  DescribeState(cell.state));
  if (cell.state != Cell::State::kUnwritten) {
    absl::StrAppend(&text, " by ", DescribeAgent(cell.writer), " (line ", cell.writer_line, ")");
  }
  Fail(violation, site, absl::StrCat(text, detail));
}

template <typename F>
void ForEachReader(const Cell& cell, F f) {
  for (int i = 0; i < cell.readers; ++i) f(cell.reader[i]);
  if (!cell.has_more_readers) return;
  for (const Block& block : CurrentThread().block->cluster->blocks) {
    const auto more = block.more_readers.find(&cell);
    if (more == block.more_readers.end()) continue;
    for (const Cell::Reader& reader : more->second) f(reader);
  }
}

// Readers that the new one is ordered after are forgotten: a write ordered after the
// new reader is ordered after them too.
void AddReader(Cell& cell, std::uint32_t address, Agent agent, Step step) {
  const VectorClock& knows = CurrentThread().knows.generic;
  int kept = 0;
  for (int i = 0; i < cell.readers; ++i) {
    const Cell::Reader reader = cell.reader[i];
    if (reader.agent != agent && knows[reader.agent] < reader.step) cell.reader[kept++] = reader;
  }
  cell.readers = static_cast<std::uint8_t>(kept);
  if (kept < Cell::kInlineReaders) {
    cell.reader[cell.readers++] = {step, static_cast<ShortAgent>(agent)};
    return;
  }
  Block& block = CurrentThread().block->cluster->blocks[RankOf(address)];
  std::vector<Cell::Reader>& more = block.more_readers[&cell];
  cell.has_more_readers = true;
  for (Cell::Reader& reader : more) {
    if (reader.agent == agent || knows[reader.agent] >= reader.step) {
      reader = {step, static_cast<ShortAgent>(agent)};
      return;
    }
  }
  more.push_back({step, static_cast<ShortAgent>(agent)});
}

void ForgetReaders(Cell& cell, std::uint32_t address) {
  cell.readers = 0;
  if (!cell.has_more_readers) return;
  CurrentThread().block->cluster->blocks[RankOf(address)].more_readers.erase(&cell);
  cell.has_more_readers = false;
}

void CheckReadersDone(const Cell& cell, std::uint32_t address, const char* what,
                      const CallSite& site) {
  if (cell.readers == 0 && !cell.has_more_readers) return;
  const Knowledge& knows = CurrentThread().knows;
  ForEachReader(cell, [&](const Cell::Reader& reader) {
    if (knows.IsFinished(reader.agent, reader.step)) return;
    Fail(Violation::kRace, site,
         absl::StrCat(what, " of ", DescribeShared(address), " is not ordered after a read by ",
                      DescribeAgent(reader.agent)));
  });
}

// A read or write through the generic proxy, against the last write.
void CheckLastWrite(const Cell& cell, std::uint32_t address, const char* what,
                    const CallSite& site) {
  if (cell.state == Cell::State::kInFlight || cell.state == Cell::State::kMbarrier) {
    FailOnWriter(
        cell.state == Cell::State::kInFlight ? Violation::kNotLanded : Violation::kMbarrierProtocol,
        cell, address, what, "", site);
  }
  if (cell.state == Cell::State::kUnwritten || !CurrentGrid().options.check_order) return;
  if (CurrentThread().knows.generic[cell.writer] < cell.write_step) {
    FailOnWriter(cell.state == Cell::State::kAsync ? Violation::kNotLanded : Violation::kRace, cell,
                 address, what, ": not ordered after it", site);
  }
}

void SetWriter(Cell& cell, std::uint32_t address, Cell::State state, Agent agent, Step step,
               const CallSite& site) {
  cell.state = state;
  cell.writer = static_cast<ShortAgent>(agent);
  cell.write_step = step;
  cell.writer_line = static_cast<std::uint16_t>(site.line);
  ForgetReaders(cell, address);
}

void Write(std::uint32_t address, std::uint32_t bytes, Cell::State state, const char* what,
           const CallSite& site) {
  Thread& thread = CurrentThread();
  Cell* cell = CellAt(address);
  const std::uint32_t count = CellCount(address, bytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = address + 4 * i;
    CheckLastWrite(cell[i], at, what, site);
    if (CurrentGrid().options.check_order) CheckReadersDone(cell[i], at, what, site);
    SetWriter(cell[i], at, state, thread.agent, thread.step(), site);
  }
}

}  // namespace

std::uint8_t* SharedBytes(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment,
                          const char* what, const CallSite& site) {
  Block& block = BlockAt(address, what, site);
  const std::uint32_t offset = address & kOffsetMask;
  if (offset % alignment != 0) {
    Fail(Violation::kMisaligned, site,
         absl::StrCat(what, ": ", DescribeShared(address), " is not aligned to ", alignment,
                      " bytes"));
  }
  if (offset < kSharedBase || offset - kSharedBase + bytes > block.shared.size()) {
    Fail(Violation::kOutOfBounds, site,
         absl::StrCat(what, ": ", bytes, " bytes at ", DescribeShared(address), " of ",
                      block.shared.size()));
  }
  if (block.exited) {
    Fail(Violation::kUnfinished, site,
         absl::StrCat(what, ": the block of rank ", block.rank, " has exited"));
  }
  return block.shared.data() + (offset - kSharedBase);
}

std::uint8_t* OwnSharedBytes(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment,
                             const char* what, const CallSite& site) {
  if (RankOf(address) != CurrentThread().block->rank) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": ", DescribeShared(address), " is not in this block"));
  }
  return SharedBytes(address, bytes, alignment, what, site);
}

std::uint8_t* ClusterSharedBytes(std::uint32_t address, std::uint32_t bytes,
                                 std::uint32_t alignment, const char* what, const CallSite& site) {
  std::uint8_t* const at = SharedBytes(address, bytes, alignment, what, site);
  Thread& thread = CurrentThread();
  Block& block = BlockOfRank(*thread.block->cluster, RankOf(address));
  if (&block == thread.block || !CurrentGrid().options.check_order) return at;
  CheckStarted(block, what, site);
  block.remote_arrivals[thread.agent] = thread.step();
  return at;
}

std::uint8_t* LandedBytes(Cluster& cluster, std::uint32_t address) {
  return cluster.blocks[RankOf(address)].shared.data() + ((address & kOffsetMask) - kSharedBase);
}

void CheckRead(std::uint32_t address, std::uint32_t bytes, const char* what, const CallSite& site) {
  Thread& thread = CurrentThread();
  Cell* cell = CellAt(address);
  const std::uint32_t count = CellCount(address, bytes);
  const Step step = thread.step();
  const bool check_order = CurrentGrid().options.check_order;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = address + 4 * i;
    // The usual case: a store that is ordered before, and nobody else has read since.
    if (check_order && cell[i].state == Cell::State::kGeneric &&
        thread.knows.generic[cell[i].writer] >= cell[i].write_step && cell[i].readers <= 1 &&
        !cell[i].has_more_readers &&
        (cell[i].readers == 0 || cell[i].reader[0].agent == thread.agent)) {
      cell[i].readers = 1;
      cell[i].reader[0] = {step, static_cast<ShortAgent>(thread.agent)};
      continue;
    }
    if (cell[i].state == Cell::State::kUnwritten) {
      FailOnWriter(Violation::kUnwritten, cell[i], at, what, "", site);
    }
    CheckLastWrite(cell[i], at, what, site);
    if (check_order) AddReader(cell[i], at, thread.agent, step);
  }
}

void CheckWrite(std::uint32_t address, std::uint32_t bytes, const char* what,
                const CallSite& site) {
  Write(address, bytes, Cell::State::kGeneric, what, site);
}

void BeginCopy(std::uint32_t address, std::uint32_t bytes, const CallSite& site) {
  Write(address, bytes, Cell::State::kInFlight, "cp.async", site);
}

void FinishCopy(std::uint32_t address, std::uint32_t bytes, const CallSite& site) {
  Thread& thread = CurrentThread();
  Cell* cell = CellAt(address);
  for (std::uint32_t i = 0; i < CellCount(address, bytes); ++i) {
    SetWriter(cell[i], address + 4 * i, Cell::State::kGeneric, thread.agent, thread.step(), site);
  }
}

void CheckAsyncRead(std::uint32_t address, std::uint32_t bytes, Agent agent, Step step,
                    const char* what, const CallSite& site) {
  Thread& thread = CurrentThread();
  Cell* cell = CellAt(address);
  const std::uint32_t count = CellCount(address, bytes);
  const bool check_order = CurrentGrid().options.check_order;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = address + 4 * i;
    // The usual case: bytes of a bulk copy that is known to have landed, read by no other.
    if (check_order && cell[i].state == Cell::State::kAsync &&
        thread.knows.generic[cell[i].writer] >= cell[i].write_step && cell[i].readers <= 1 &&
        !cell[i].has_more_readers && (cell[i].readers == 0 || cell[i].reader[0].agent == agent)) {
      cell[i].readers = 1;
      cell[i].reader[0] = {step, static_cast<ShortAgent>(agent)};
      continue;
    }
    if (cell[i].state == Cell::State::kUnwritten) {
      FailOnWriter(Violation::kUnwritten, cell[i], at, what, "", site);
    }
    CheckLastWrite(cell[i], at, what, site);
    if (!check_order) continue;
    if (cell[i].state == Cell::State::kGeneric &&
        thread.knows.async_proxy[cell[i].writer] < cell[i].write_step) {
      FailOnWriter(Violation::kMissingFence, cell[i], at, what,
                   ": no fence.proxy.async between them", site);
    }
    AddReader(cell[i], at, agent, step);
  }
}

void CheckAsyncWrite(std::uint32_t address, std::uint32_t bytes, Agent agent, Step step,
                     const char* what, const CallSite& site) {
  Thread& thread = CurrentThread();
  Cell* cell = CellAt(address);
  for (std::uint32_t i = 0; i < CellCount(address, bytes); ++i) {
    const std::uint32_t at = address + 4 * i;
    const bool follows_copy = cell[i].state == Cell::State::kAsync &&
                              thread.knows.IsFinished(cell[i].writer, cell[i].write_step);
    if (!follows_copy) CheckLastWrite(cell[i], at, what, site);
    if (CurrentGrid().options.check_order) {
      if (cell[i].state == Cell::State::kGeneric &&
          thread.knows.async_proxy[cell[i].writer] < cell[i].write_step) {
        FailOnWriter(Violation::kMissingFence, cell[i], at, what,
                     ": no fence.proxy.async between them", site);
      }
      CheckReadersDone(cell[i], at, what, site);
    }
    SetWriter(cell[i], at, Cell::State::kAsync, agent, step, site);
  }
}

void ClaimForMbarrier(std::uint32_t address, const CallSite& site) {
  Write(address, 8, Cell::State::kMbarrier, "mbarrier.init", site);
}

}  // namespace gemmd::emulator
