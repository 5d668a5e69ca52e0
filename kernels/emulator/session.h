// Where a device hands launches to the emulator: how to run them, and what came out.
#pragma once

#include "kernels/emulator/options.h"

namespace gemmd::emulator {

// Not thread-safe.
struct Session {
  Options options;
  Report report;  // of the last launch
};

}  // namespace gemmd::emulator
