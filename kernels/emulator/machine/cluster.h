// Addresses in other blocks of the cluster.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

// mapa: the same offset in the shared memory of block `rank`, which must exist.
std::uint32_t MapShared(std::uint32_t address, std::uint32_t rank, const CallSite& site);

}  // namespace gemmd::emulator
