// A stream that stops.
#pragma once

#include "absl/status/status.h"

struct CUstream_st;

namespace gemmd {

// Makes all that comes later on the stream wait for a minute.
// UNIMPLEMENTED: this build has no CUDA.
absl::Status StallStream(CUstream_st* stream);

}  // namespace gemmd
