#include "kernels/emulator/global_memory.h"

#include "kernels/emulator/global_order.h"
#include "kernels/emulator/machine.h"

namespace gemmd::emulator {
namespace {

void WakePolling() {
  Grid& grid = CurrentGrid();
  for (Thread* thread : grid.polling) Wake(*thread);
  grid.polling.clear();
}

}  // namespace

void CheckGlobal(const void* address, std::uint64_t bytes, std::uint64_t alignment, bool is_write,
                 const char* what, const CallSite& site) {
  CheckGlobalUse(address, bytes, alignment, OwnGlobalUse(is_write), what, site);
}

std::uint32_t GlobalAtomicAdd(std::uint32_t* address, std::uint32_t value, const CallSite& site) {
  CheckGlobalUse(address, sizeof *address, sizeof *address, OwnGlobalUse(true, true), "atom.add",
                 site);
  AcquireFlag(address);
  ReleaseFlag(address, false);
  const std::uint32_t old = *address;
  *address = old + value;
  WakePolling();
  return old;
}

void GlobalStoreRelease(std::uint32_t* address, std::uint32_t value, const CallSite& site) {
  if (IsSkipped(site)) return;
  CheckGlobalUse(address, sizeof *address, sizeof *address, OwnGlobalUse(true, true), "st.release",
                 site);
  ReleaseFlag(address, true);
  *address = value;
  WakePolling();
}

void GlobalWaitAtLeast(const std::uint32_t* address, std::uint32_t value, const CallSite& site) {
  if (IsSkipped(site)) return;
  CheckGlobalUse(address, sizeof *address, sizeof *address, OwnGlobalUse(false, true), "ld.acquire",
                 site);
  while (*address < value) {
    CurrentGrid().polling.push_back(&CurrentThread());
    BlockCurrent({"a counter in global memory to reach", site, false, 0, value});
  }
  AcquireFlag(address);
}

void FenceProxyAsyncGlobal(const CallSite& site) {
  if (!IsSkipped(site)) FenceGlobalProxy();
}

void PrefetchGlobal(const void* address, const CallSite& site) {
  CheckGlobalBounds(address, 1, "prefetch.global.L2", site);
}

}  // namespace gemmd::emulator
