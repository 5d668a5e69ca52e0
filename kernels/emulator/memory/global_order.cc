#include "kernels/emulator/memory/global_order.h"

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/failure.h"

namespace gemmd::emulator {

namespace {

struct GlobalAccess {
  Step step = 0;  // 0: none
  Agent agent = 0;
  std::uint32_t cluster : 31;
  std::uint32_t is_async : 1;
  GlobalAccess() : cluster(0), is_async(0) {}

  bool operator==(const GlobalAccess& other) const {
    return step == other.step && agent == other.agent && cluster == other.cluster &&
           is_async == other.is_async;
  }
};

struct GlobalByte {
  GlobalAccess write;
  GlobalAccess read;            // the last one
  bool has_more_reads = false;  // in GlobalOrder::more_reads
};

constexpr std::uint64_t kPageBytes = 1024;
using Page = std::array<GlobalByte, kPageBytes>;

}  // namespace

struct GlobalOrder {
  // One for each buffer of the request, made as its bytes are touched.
  std::vector<std::vector<std::unique_ptr<Page>>> pages;
  std::vector<bool> is_checked;
  // Reads of a byte that are not ordered before its last one.
  std::unordered_map<const GlobalByte*, std::vector<GlobalAccess>> more_reads;
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

// A thread knows nothing of other clusters.
bool IsKnown(const GlobalAccess& access, const VectorClock& clock) {
  return access.cluster == CurrentThread().block->cluster->number &&
         clock[access.agent] >= access.step;
}

bool IsKnown(const GlobalAccess& access) { return IsKnown(access, CurrentThread().knows.generic); }

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
    if (!IsKnown(write)) {
      Fail(Violation::kRace, site_,
           absl::StrCat(what_, " of ", buffer_.name, "+", offset_,
                        " is not ordered after a write by ", Describe(write)));
    }
    if (!use_.is_async || write.is_async || IsKnown(write, CurrentThread().knows.async_global)) {
      return;
    }
    Fail(Violation::kMissingFence, site_,
         absl::StrCat(what_, " of ", buffer_.name, "+", offset_, ", which holds a store by ",
                      Describe(write), ": no fence.proxy.async over global memory between them"));
  }

  void CheckAfterRead(const GlobalAccess& read) const {
    if (IsKnown(read)) return;
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

}  // namespace

GlobalUse OwnGlobalUse(bool writes) {
  const Thread& thread = CurrentThread();
  return {writes, false, thread.agent, thread.step()};
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

void FenceGlobalProxy() {
  Thread& thread = CurrentThread();
  thread.knows.async_global = thread.knows.generic;
  BeginStep(thread);
}

}  // namespace gemmd::emulator
