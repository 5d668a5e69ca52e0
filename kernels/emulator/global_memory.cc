#include "kernels/emulator/global_memory.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/failure.h"
#include "kernels/emulator/machine.h"

namespace gemmd::emulator {
namespace {

std::uint64_t AddressOf(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

void WakePolling() {
  Grid& grid = CurrentGrid();
  for (Thread* thread : grid.polling) Wake(*thread);
  grid.polling.clear();
}

}  // namespace

void CheckGlobal(const void* address, std::uint64_t bytes, std::uint64_t alignment, bool is_write,
                 const char* what, const CallSite& site) {
  const std::uint64_t at = AddressOf(address);
  for (const Buffer& buffer : CurrentGrid().request->buffers) {
    const std::uint64_t start = AddressOf(buffer.data);
    if (at < start || at + bytes > start + buffer.bytes) continue;
    if (is_write && buffer.read_only) {
      Fail(Violation::kReadOnly, site, absl::StrCat(what, " of ", buffer.name, "+", at - start));
    }
    if (at % alignment != 0) {
      Fail(Violation::kMisaligned, site,
           absl::StrCat(what, " at ", buffer.name, "+", at - start, " is not aligned to ",
                        alignment, " bytes"));
    }
    return;
  }
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

std::uint32_t GlobalAtomicAdd(std::uint32_t* address, std::uint32_t value, const CallSite& site) {
  CheckGlobal(address, sizeof *address, sizeof *address, true, "atom.add", site);
  const std::uint32_t old = *address;
  *address = old + value;
  WakePolling();
  return old;
}

void GlobalStoreRelease(std::uint32_t* address, std::uint32_t value, const CallSite& site) {
  CheckGlobal(address, sizeof *address, sizeof *address, true, "st.release", site);
  *address = value;
  WakePolling();
}

void GlobalWaitAtLeast(const std::uint32_t* address, std::uint32_t value, const CallSite& site) {
  CheckGlobal(address, sizeof *address, sizeof *address, false, "ld.acquire", site);
  while (*address < value) {
    CurrentGrid().polling.push_back(&CurrentThread());
    BlockCurrent({"a counter in global memory to reach", site, false, 0, value});
  }
}

}  // namespace gemmd::emulator
