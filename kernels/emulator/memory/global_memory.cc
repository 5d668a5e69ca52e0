#include "kernels/emulator/memory/global_memory.h"

#include "kernels/emulator/machine/machine.h"
#include "kernels/emulator/memory/global_order.h"

namespace gemmd::emulator {
void CheckGlobal(const void* address, std::uint64_t bytes, std::uint64_t alignment, bool is_write,
                 const char* what, const CallSite& site) {
  CheckGlobalUse(address, bytes, alignment, OwnGlobalUse(is_write), what, site);
}

void FenceProxyAsyncGlobal(const CallSite& site) {
  if (!IsSkipped(site)) FenceGlobalProxy();
}

}  // namespace gemmd::emulator
