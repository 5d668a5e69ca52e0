#include "kernels/emulator/global_order.h"

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/failure.h"

namespace gemmd::emulator {

namespace {

struct GlobalAccess {
  Step step = 0;  // 0: none
  Agent agent = 0;
  std::uint32_t cluster : 30;
  std::uint32_t is_async : 1;
  std::uint32_t is_atomic : 1;
  GlobalAccess() : cluster(0), is_async(0), is_atomic(0) {}

  bool operator==(const GlobalAccess& other) const {
    return step == other.step && agent == other.agent && cluster == other.cluster &&
           is_async == other.is_async && is_atomic == other.is_atomic;
  }
};

struct GlobalByte {
  GlobalAccess write;
  GlobalAccess read;            // the last one
  bool has_more_reads = false;  // in GlobalOrder::more_reads
};

constexpr std::uint64_t kPageBytes = 1024;
using Page = std::array<GlobalByte, kPageBytes>;

// The knowledge that a flag passes on.
struct Flag {
  ForeignPointer generic;
  ForeignPointer async;
};

}  // namespace

struct GlobalOrder {
  // One for each buffer of the request, made as its bytes are touched.
  std::vector<std::vector<std::unique_ptr<Page>>> pages;
  std::vector<bool> is_checked;
  // Reads of a byte that are not ordered before its last one.
  std::unordered_map<const GlobalByte*, std::vector<GlobalAccess>> more_reads;
  std::unordered_map<const void*, Flag> flags;
};

namespace {

GlobalOrder& Order() {
  Grid& grid = CurrentGrid();
  if (grid.global_order != nullptr) return *grid.global_order;
  grid.global_order = std::make_shared<GlobalOrder>();
  for (const Buffer& buffer : grid.request->buffers) {
    const bool is_short = buffer.bytes <= grid.options.global_order_limit;
    if (!is_short && !buffer.read_only) {
      grid.report.statistics.unchecked_buffers.push_back(buffer.name);
    }
    grid.global_order->is_checked.push_back(is_short && !buffer.read_only);
    grid.global_order->pages.emplace_back(is_short ? (buffer.bytes + kPageBytes - 1) / kPageBytes
                                                   : 0);
  }
  return *grid.global_order;
}

bool IsKnown(const GlobalAccess& access, const VectorClock& own, const ForeignPointer& foreign) {
  const Thread& thread = CurrentThread();
  if (access.cluster == thread.block->cluster->number) return own[access.agent] >= access.step;
  if (foreign == nullptr) return false;
  const auto clock = foreign->find(access.cluster);
  return clock != foreign->end() && clock->second[access.agent] >= access.step;
}

bool IsKnown(const GlobalAccess& access) {
  const Knowledge& knows = CurrentThread().knows;
  return IsKnown(access, knows.generic, knows.foreign);
}

std::string Describe(const GlobalAccess& access) {
  const Cluster& cluster = *CurrentThread().block->cluster;
  std::string text = access.is_async ? "a bulk copy of " : "";
  if (access.cluster != cluster.number) {
    return absl::StrCat(text, cluster.blocks.size() > 1 ? "cluster " : "block number ",
                        access.cluster);
  }
  if (access.agent >= cluster.threads.size()) return absl::StrCat(text, "this cluster");
  const Thread& thread = cluster.threads[access.agent];
  return absl::StrCat(
      text, "thread ", thread.index,
      cluster.blocks.size() > 1 ? absl::StrCat(" of rank ", thread.block->rank) : "");
}

// Judges one use against the last ones of each byte that it meets; equal neighbours are judged
// once.
class Checker {
 public:
  Checker(GlobalOrder& order, const Buffer& buffer, const GlobalUse& use, const char* what,
          const CallSite& site)
      : order_(order), buffer_(buffer), use_(use), what_(what), site_(site) {
    access_.step = use.step;
    access_.agent = use.agent;
    access_.cluster = CurrentThread().block->cluster->number;
    access_.is_async = use.is_async;
    access_.is_atomic = use.is_atomic;
  }

  void Visit(GlobalByte& byte, std::uint64_t offset) {
    offset_ = offset;
    if (byte.write.step != 0 && !(byte.write == judged_write_)) {
      CheckAfterWrite(byte.write);
      judged_write_ = byte.write;
    }
    if (use_.writes) {
      if (byte.read.step != 0 && !(byte.read == judged_read_)) {
        CheckAfterRead(byte.read);
        judged_read_ = byte.read;
      }
      if (byte.has_more_reads) {
        for (const GlobalAccess& read : order_.more_reads[&byte]) CheckAfterRead(read);
        order_.more_reads.erase(&byte);
        byte.has_more_reads = false;
      }
      byte.write = access_;
      byte.read = GlobalAccess();
      return;
    }
    const bool forgets = byte.read.step == 0 || byte.read == access_ || IsKnown(byte.read);
    if (!forgets) {
      order_.more_reads[&byte].push_back(byte.read);
      byte.has_more_reads = true;
    }
    byte.read = access_;
  }

 private:
  void CheckAfterWrite(const GlobalAccess& write) const {
    if (write.is_atomic && use_.is_atomic) return;
    if (!IsKnown(write)) {
      Fail(Violation::kRace, site_,
           absl::StrCat(what_, " of ", buffer_.name, "+", offset_,
                        " is not ordered after a write by ", Describe(write)));
    }
    const Knowledge& knows = CurrentThread().knows;
    if (!use_.is_async || write.is_async ||
        IsKnown(write, knows.async_global, knows.foreign_async)) {
      return;
    }
    Fail(Violation::kMissingFence, site_,
         absl::StrCat(what_, " of ", buffer_.name, "+", offset_, ", which holds a store by ",
                      Describe(write), ": no fence.proxy.async over global memory between them"));
  }

  void CheckAfterRead(const GlobalAccess& read) const {
    if ((read.is_atomic && use_.is_atomic) || IsKnown(read)) return;
    Fail(Violation::kRace, site_,
         absl::StrCat(what_, " of ", buffer_.name, "+", offset_, " is not ordered after a read by ",
                      Describe(read)));
  }

  GlobalOrder& order_;
  const Buffer& buffer_;
  const GlobalUse& use_;
  const char* what_;
  const CallSite& site_;
  GlobalAccess access_;
  GlobalAccess judged_write_;
  GlobalAccess judged_read_;
  std::uint64_t offset_ = 0;
};

void CheckOrder(std::size_t index, std::uint64_t offset, std::uint64_t bytes, const GlobalUse& use,
                const char* what, const CallSite& site) {
  GlobalOrder& order = Order();
  if (!order.is_checked[index]) return;
  Checker checker(order, CurrentGrid().request->buffers[index], use, what, site);
  for (std::uint64_t at = offset; at < offset + bytes; ++at) {
    std::unique_ptr<Page>& page = order.pages[index][at / kPageBytes];
    if (page == nullptr) page = std::make_unique<Page>();
    checker.Visit((*page)[at % kPageBytes], at);
  }
}

std::uint64_t AddressOf(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

void CheckInBuffer(std::size_t index, std::uint64_t offset, std::uint64_t bytes,
                   std::uint64_t alignment, const GlobalUse& use, const char* what,
                   const CallSite& site) {
  const Grid& grid = CurrentGrid();
  const Buffer& buffer = grid.request->buffers[index];
  if (use.writes && buffer.read_only) {
    Fail(Violation::kReadOnly, site, absl::StrCat(what, " of ", buffer.name, "+", offset));
  }
  if ((AddressOf(buffer.data) + offset) % alignment != 0) {
    Fail(Violation::kMisaligned, site,
         absl::StrCat(what, " at ", buffer.name, "+", offset, " is not aligned to ", alignment,
                      " bytes"));
  }
  if (!grid.options.check_order) return;
  if (grid.request->overlaps_preceding && !buffer.settled &&
      !CurrentThread().knows.preceding_grid) {
    Fail(Violation::kRace, site,
         absl::StrCat(what, " of ", buffer.name, "+", offset,
                      " is not ordered after a griddepcontrol.wait: the grid before may still "
                      "use it"));
  }
  if (!buffer.read_only) CheckOrder(index, offset, bytes, use, what, site);
}

[[noreturn]] void FailOutOfBounds(std::uint64_t at, std::uint64_t bytes, const char* what,
                                  const CallSite& site) {
  for (const Buffer& buffer : CurrentGrid().request->buffers) {
    const std::uint64_t start = AddressOf(buffer.data);
    constexpr std::uint64_t kNear = 1 << 20;
    if (at + kNear < start || at > start + buffer.bytes + kNear) continue;
    Fail(Violation::kOutOfBounds, site,
         absl::StrCat(what, " of ", bytes, " bytes at ", buffer.name, at < start ? "-" : "+",
                      at < start ? start - at : at - start, ", which has ", buffer.bytes));
  }
  Fail(Violation::kOutOfBounds, site,
       absl::StrCat(what, " of ", bytes, " bytes outside every buffer"));
}

ForeignPointer WithOwn(const ForeignPointer& foreign, const VectorClock& own) {
  auto all = foreign == nullptr ? std::make_shared<ForeignClocks>()
                                : std::make_shared<ForeignClocks>(*foreign);
  (*all)[CurrentThread().block->cluster->number].Join(own);
  return all;
}

}  // namespace

GlobalUse OwnGlobalUse(bool writes, bool is_atomic) {
  const Thread& thread = CurrentThread();
  return {writes, false, is_atomic, thread.agent, thread.step()};
}

void CheckGlobalUse(const void* address, std::uint64_t bytes, std::uint64_t alignment,
                    const GlobalUse& use, const char* what, const CallSite& site) {
  const std::uint64_t at = AddressOf(address);
  const std::vector<Buffer>& buffers = CurrentGrid().request->buffers;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::uint64_t start = AddressOf(buffers[i].data);
    if (at < start || at + bytes > start + buffers[i].bytes) continue;
    CheckInBuffer(i, at - start, bytes, alignment, use, what, site);
    return;
  }
  FailOutOfBounds(at, bytes, what, site);
}

void CheckGlobalBounds(const void* address, std::uint64_t bytes, const char* what,
                       const CallSite& site) {
  const std::uint64_t at = AddressOf(address);
  for (const Buffer& buffer : CurrentGrid().request->buffers) {
    const std::uint64_t start = AddressOf(buffer.data);
    if (at >= start && at + bytes <= start + buffer.bytes) return;
  }
  FailOutOfBounds(at, bytes, what, site);
}

void ReleaseFlag(const void* address, bool replaces) {
  Thread& thread = CurrentThread();
  Flag& flag = Order().flags[address];
  if (replaces) flag = Flag();
  JoinForeign(&flag.generic, WithOwn(thread.knows.foreign, thread.knows.generic));
  JoinForeign(&flag.async, WithOwn(thread.knows.foreign_async, thread.knows.async_global));
  BeginStep(thread);
}

void AcquireFlag(const void* address) {
  const auto found = Order().flags.find(address);
  if (found == Order().flags.end()) return;
  Thread& thread = CurrentThread();
  const std::uint32_t own = thread.block->cluster->number;
  const Flag& flag = found->second;
  JoinForeign(&thread.knows.foreign, flag.generic);
  JoinForeign(&thread.knows.foreign_async, flag.async);
  const auto generic = flag.generic->find(own);
  if (generic != flag.generic->end()) thread.knows.generic.Join(generic->second);
  const auto async = flag.async->find(own);
  if (async != flag.async->end()) thread.knows.async_global.Join(async->second);
}

void FenceGlobalProxy() {
  Thread& thread = CurrentThread();
  thread.knows.async_global = thread.knows.generic;
  thread.knows.foreign_async = thread.knows.foreign;
  BeginStep(thread);
}

}  // namespace gemmd::emulator
