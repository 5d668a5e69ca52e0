// Operations that land later: what makes a missing wait visible.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

// Queues an operation of a cluster. With Landing::kEager it lands before Post() returns.
// `land` may run outside any fiber, so it must not ask for the running thread; it may
// post further operations.
OperationId Post(Cluster& cluster, std::function<void()> land, std::uint64_t channel = 0);

// Lands the operation now, and first those before it in its channel. No effect if it
// has landed.
void LandNow(OperationId id);

// Returns whether the operation has not landed.
bool IsPending(OperationId id);

// Lands one operation that the seed chooses. REQUIRES: one is pending.
void LandOne(Grid& grid);

// Lands all operations of a cluster.
void LandAll(Grid& grid, const Cluster& cluster);

}  // namespace gemmd::emulator
