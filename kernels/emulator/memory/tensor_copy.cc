#include "kernels/emulator/memory/tensor_copy.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/peers.h"
#include "kernels/emulator/memory/async_engine.h"
#include "kernels/emulator/memory/global_order.h"
#include "kernels/emulator/memory/happens_before.h"
#include "kernels/emulator/memory/mbarrier_engine.h"
#include "kernels/emulator/memory/swizzle.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kUnit = 16;  // bytes: what swizzling and clipping work in

std::uint32_t BoxBytes(const TensorMap& map) {
  std::uint32_t bytes = ElementBytes(map.element);
  for (std::uint32_t i = 0; i < map.rank; ++i) bytes *= map.box[i];
  return bytes;
}

// Calls f(box_row, inside, first_byte) for each row of the box along the first dimension:
// whether its other coordinates lie inside, and the offset of the row's tensor line.
template <typename F>
void ForEachRow(const TensorMap& map, const Coordinates& corner, F f) {
  std::uint32_t rows = 1;
  for (std::uint32_t i = 1; i < map.rank; ++i) rows *= map.box[i];
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::uint32_t rest = row;
    bool inside = true;
    std::int64_t line = 0;
    for (std::uint32_t i = 1; i < map.rank; ++i) {
      const std::int64_t at = corner.at[i] + static_cast<std::int64_t>(rest % map.box[i]);
      rest /= map.box[i];
      inside = inside && at >= 0 && at < static_cast<std::int64_t>(map.size[i]);
      line += at * static_cast<std::int64_t>(map.stride_bytes[i]);
    }
    f(row, inside, line);
  }
}

std::uint8_t* GlobalByte(const TensorMap& map, std::int64_t offset) {
  return const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(map.base)) + offset;
}

// Returns how many of the 16 bytes from byte `at` of a tensor's line lie before `end`.
std::uint32_t InsideUnit(std::int64_t at, std::int64_t end) {
  if (at < 0 || at >= end) return 0;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(kUnit, end - at));
}

// Where a line of the tensor ends, for a load and for a store: a store clips its first
// dimension in whole units.
std::int64_t EndOfLine(const TensorMap& map, bool is_store) {
  const std::uint64_t end = map.size[0] * ElementBytes(map.element);
  return static_cast<std::int64_t>(is_store ? (end + kUnit - 1) / kUnit * kUnit : end);
}

std::int64_t FirstByte(const TensorMap& map, const Coordinates& corner) {
  return static_cast<std::int64_t>(corner.at[0]) * ElementBytes(map.element);
}

std::uint32_t RowBytes(const TensorMap& map) { return map.box[0] * ElementBytes(map.element); }

// Checks what a copy touches of global memory, row by row, as the running thread issues it.
void CheckBox(const TensorMap& map, const Coordinates& corner, const GlobalUse& use,
              const char* what, const CallSite& site) {
  const std::int64_t first = std::max<std::int64_t>(FirstByte(map, corner), 0);
  const std::int64_t last =
      std::min(FirstByte(map, corner) + RowBytes(map), EndOfLine(map, use.writes));
  if (last <= first) return;
  ForEachRow(map, corner, [&](std::uint32_t, bool inside, std::int64_t line) {
    if (!inside) return;
    CheckGlobalUse(GlobalByte(map, line + first), static_cast<std::uint64_t>(last - first),
                   ElementBytes(map.element), use, what, site);
  });
}

// The value that a map of tf32 makes of a binary32 as it loads it.
void RoundWords(std::uint8_t* words, std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < bytes; i += 4) {
    std::uint32_t word;
    std::memcpy(&word, words + i, sizeof word);
    word = RoundToTf32(word);
    std::memcpy(words + i, &word, sizeof word);
  }
}

void LandLoad(Cluster& cluster, const TensorMap& map, const Coordinates& corner,
              std::uint32_t destination) {
  const std::uint32_t row_bytes = RowBytes(map);
  const std::int64_t end = EndOfLine(map, false);
  ForEachRow(map, corner, [&](std::uint32_t row, bool inside, std::int64_t line) {
    for (std::uint32_t byte = 0; byte < row_bytes; byte += kUnit) {
      const std::int64_t x = FirstByte(map, corner) + byte;
      const std::uint32_t count = inside ? InsideUnit(x, end) : 0;
      std::uint8_t* to =
          LandedBytes(cluster, SwizzleAddress(destination + row * row_bytes + byte, map.swizzle));
      if (count > 0) std::memcpy(to, GlobalByte(map, line + x), count);
      if (map.element == TensorElement::kTf32) RoundWords(to, count);
      std::memset(to + count, 0, kUnit - count);
    }
  });
}

// The box as it lay in shared memory, unswizzled.
std::vector<std::uint8_t> ReadBox(Cluster& cluster, const TensorMap& map, std::uint32_t source) {
  std::vector<std::uint8_t> box(BoxBytes(map));
  for (std::uint32_t byte = 0; byte < box.size(); byte += kUnit) {
    std::memcpy(&box[byte], LandedBytes(cluster, SwizzleAddress(source + byte, map.swizzle)),
                kUnit);
  }
  return box;
}

void LandStore(const TensorMap& map, const Coordinates& corner,
               const std::vector<std::uint8_t>& box) {
  const std::uint32_t row_bytes = RowBytes(map);
  const std::int64_t end = EndOfLine(map, true);
  ForEachRow(map, corner, [&](std::uint32_t row, bool inside, std::int64_t line) {
    for (std::uint32_t byte = 0; inside && byte < row_bytes; byte += kUnit) {
      const std::int64_t x = FirstByte(map, corner) + byte;
      const std::uint32_t count = InsideUnit(x, end);
      if (count > 0) std::memcpy(GlobalByte(map, line + x), &box[row * row_bytes + byte], count);
    }
  });
}

// Found on an H200: a first coordinate that is not a whole number of 16-byte units ends the
// kernel with "illegal instruction", inside the tensor and outside; so does a negative
// coordinate of a store, in any dimension. Loads may start before the tensor.
void CheckCorner(const TensorMap& map, const Coordinates& corner, const char* what,
                 const CallSite& site) {
  const std::int64_t x_bytes = static_cast<std::int64_t>(corner.at[0]) * ElementBytes(map.element);
  if (x_bytes % kUnit == 0) return;
  Fail(Violation::kMisaligned, site,
       absl::StrCat(what, ": the first coordinate ", corner.at[0], " is ", x_bytes,
                    " bytes, not a multiple of ", kUnit));
}

bool IsTensorMap(const TensorMap* map) {
  return map != nullptr && map->base != nullptr && map->rank >= 1 && map->rank <= kMaxTensorRank;
}

Agent BulkAgent(Thread& thread) {
  if (!thread.has_bulk_agent) {
    thread.has_bulk_agent = true;
    thread.bulk_agent = NewAgent(*thread.block->cluster);
    thread.bulk_write_agent = NewAgent(*thread.block->cluster);
  }
  return thread.bulk_agent;
}

}  // namespace

void CheckTensorMap(const TensorMap* map, const char* what, const CallSite& site) {
  if (IsTensorMap(map)) return;
  Fail(Violation::kBadOperand, site, absl::StrCat(what, ": not a tensor map"));
}

void TensorPrefetch(const TensorMap& map, const Coordinates& corner, const CallSite& site) {
  const char* what = "cp.async.bulk.prefetch.tensor";
  CheckTensorMap(&map, what, site);
  CheckCorner(map, corner, what, site);
}

namespace {

// `signalled` gives the rank whose mbarrier the copy to a rank completes on.
template <typename F>
void Load(std::uint32_t destination, const TensorMap& map, const Coordinates& corner,
          std::uint32_t mbarrier, std::uint32_t mask, F signalled, const CallSite& site) {
  const char* what = "cp.async.bulk.tensor";
  CheckTensorMap(&map, what, site);
  Cluster& cluster = *CurrentThread().block->cluster;
  const std::uint32_t bytes = BoxBytes(map);
  CheckCorner(map, corner, what, site);
  if (mask == 0 || (mask >> cluster.blocks.size()) != 0) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": multicast to mask ", mask, " in a cluster of ",
                      cluster.blocks.size()));
  }
  for (std::uint32_t rank = 0; rank < cluster.blocks.size(); ++rank) {
    if (((mask >> rank) & 1) == 0) continue;
    const std::uint32_t to = (destination & kOffsetMask) | (rank << kRankShift);
    const std::uint32_t on = (mbarrier & kOffsetMask) | (signalled(rank) << kRankShift);
    SharedBytes(to, bytes, SwizzlePeriod(map.swizzle), what, site);
    CheckStarted(BlockOfRank(cluster, rank), what, site);
    const Mbarrier& object = BeginTransaction(on, bytes, site);
    CheckAsyncWrite(to, bytes, object.agent, object.phase + 1, what, site);
    CheckBox(map, corner, {false, true, object.agent, object.phase + 1}, what, site);
    Post(cluster, [map, &cluster, site, corner, to, on, bytes] {
      LandLoad(cluster, map, corner, to);
      CompleteTransaction(cluster, on, bytes, site);
    });
  }
}

}  // namespace

void TensorLoad(std::uint32_t destination, const TensorMap& map, const Coordinates& corner,
                std::uint32_t mbarrier, std::uint32_t mask, const CallSite& site) {
  Load(
      destination, map, corner, mbarrier, mask, [](std::uint32_t rank) { return rank; }, site);
}

void TensorLoadOfPair(std::uint32_t destination, const TensorMap& map, const Coordinates& corner,
                      std::uint32_t mbarrier, std::uint32_t mask, const CallSite& site) {
  const std::uint32_t parity = RankOf(mbarrier) % 2;
  Load(
      destination, map, corner, mbarrier, mask,
      [parity](std::uint32_t rank) { return rank / 2 * 2 + parity; }, site);
}

// A tensor of one line, which is its only box.
void BulkLoad(std::uint32_t destination, const void* source, std::uint32_t bytes,
              std::uint32_t mbarrier, const CallSite& site) {
  const char* what = "cp.async.bulk";
  if (bytes % kUnit != 0 || reinterpret_cast<std::uintptr_t>(source) % kUnit != 0) {
    Fail(Violation::kMisaligned, site,
         absl::StrCat(what, " of ", bytes, " bytes: source and size are multiples of ", kUnit));
  }
  TensorMap line;
  line.base = source;
  line.size[0] = bytes;
  line.box[0] = bytes;
  line.rank = 1;
  Cluster& cluster = *CurrentThread().block->cluster;
  OwnSharedBytes(destination, bytes, kUnit, what, site);
  const Mbarrier& object = BeginTransaction(mbarrier, bytes, site);
  CheckAsyncWrite(destination, bytes, object.agent, object.phase + 1, what, site);
  CheckBox(line, Coordinates(), {false, true, object.agent, object.phase + 1}, what, site);
  Post(cluster, [line, &cluster, site, destination, mbarrier, bytes] {
    LandLoad(cluster, line, Coordinates(), destination);
    CompleteTransaction(cluster, mbarrier, bytes, site);
  });
}

void TensorStore(const TensorMap& map, std::uint32_t source, const Coordinates& corner,
                 const CallSite& site) {
  const char* what = "cp.async.bulk.tensor store";
  CheckTensorMap(&map, what, site);
  Thread& thread = CurrentThread();
  Cluster& cluster = *thread.block->cluster;
  const std::uint32_t bytes = BoxBytes(map);
  CheckCorner(map, corner, what, site);
  for (std::uint32_t i = 0; i < map.rank; ++i) {
    if (corner.at[i] >= 0) continue;
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": coordinate ", i, " is ", corner.at[i], ", before the tensor"));
  }
  OwnSharedBytes(source, bytes, SwizzlePeriod(map.swizzle), what, site);
  const Agent agent = BulkAgent(thread);
  CheckAsyncRead(source, bytes, agent, thread.bulk_committed + 1, what, site);
  CheckBox(map, corner, {true, true, thread.bulk_write_agent, thread.bulk_committed + 1}, what,
           site);
  // Reading shared memory and writing global memory land one after the other, each when
  // it likes.
  auto box = std::make_shared<std::vector<std::uint8_t>>();
  const std::uint64_t channel = (std::uint64_t{1} << 32) + CurrentGrid().next_operation;
  const OperationId read = Post(
      cluster, [map, &cluster, box, source] { *box = ReadBox(cluster, map, source); }, channel);
  const OperationId write = Post(
      cluster, [map, box, corner] { LandStore(map, corner, *box); }, channel);
  thread.open_bulk.emplace_back(read, write);
}

void BulkCommit(const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  BulkGroup group;
  for (const auto& [read, write] : thread.open_bulk) {
    group.reads.push_back(read);
    group.writes.push_back(write);
  }
  thread.open_bulk.clear();
  thread.bulk_groups.push_back(std::move(group));
  ++thread.bulk_committed;
}

void BulkWaitRead(std::uint32_t pending, const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  if (thread.bulk_groups.size() <= pending) return;
  for (std::size_t i = 0; i < thread.bulk_groups.size() - pending; ++i) {
    for (const OperationId read : thread.bulk_groups[i].reads) LandNow(read);
  }
  const Step done = thread.bulk_committed - pending;
  thread.bulk_read = std::max(thread.bulk_read, done);
  thread.knows.generic.Raise(BulkAgent(thread), done);
}

void BulkWait(std::uint32_t pending, const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  BulkWaitRead(pending, site);
  while (thread.bulk_groups.size() > pending) {
    for (const OperationId write : thread.bulk_groups.front().writes) LandNow(write);
    thread.bulk_groups.pop_front();
  }
  if (thread.bulk_committed > pending) {
    BulkAgent(thread);
    thread.knows.generic.Raise(thread.bulk_write_agent, thread.bulk_committed - pending);
  }
}

}  // namespace gemmd::emulator
