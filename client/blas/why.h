// Where a call was computed, and why there.
#pragma once

namespace gemmd::blas {

enum class Why {
  kServer,      // there
  kNoProduct,   // nothing to multiply, or arguments that this machine's BLAS refuses
  kSmall,       // too small to ask about
  kNever,       // GEMMD_BLAS_MODE, or a setting that is none
  kNoServer,    // GEMMD_SERVER is not set
  kNoClient,    // no libgemmd.so.0, or settings that make no client
  kForked,      // the process was forked from one that may have had threads
  kHereFaster,  // as predicted
  kPaused,      // the server failed a moment ago
  kRefused,     // the server takes no such product
  kFailed,      // the server is gone, or failed
  kTooSlow,     // the answer was not here within the limit
  kNoMemory,
  kNoFortran,  // this machine's BLAS has the C name alone, and parts need the Fortran ones
};

// "server", "here: small"
const char* NameOf(Why why);

}  // namespace gemmd::blas
