// Counts shared-memory bank conflicts, where Options::count_bank_conflicts says so.
//
// Shared memory has 32 banks of 4 bytes. A warp's access of 4 bytes a lane is one pass,
// of 8 bytes two passes of 16 lanes, of 16 bytes four passes of 8 lanes; in a pass,
// different words of one bank are served one after another. CUDA C++ Programming Guide,
// "Shared Memory", gives the banks; the split of wide accesses is what measurements of
// every GPU since sm_70 agree on.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

// The running thread accesses shared memory at `site`. Lanes that reach a site equally
// often are taken as one warp-wide access.
void NoteSharedAccess(const char* instruction, std::uint32_t address, std::uint32_t bytes,
                      const CallSite& site);

// Eight rows of 16 bytes that ldmatrix or stmatrix moves in one pass.
void NoteMatrixAccess(const char* instruction, const std::uint32_t (&row)[8], const CallSite& site);

// Counts the accesses that only part of a warp made.
void CountUnfinishedAccesses(Grid& grid, const Cluster& cluster);

}  // namespace gemmd::emulator
