#include "client/blas/why.h"

namespace gemmd::blas {

const char* NameOf(Why why) {
  switch (why) {
    case Why::kServer:
      return "server";
    case Why::kNoProduct:
      return "here: no product";
    case Why::kSmall:
      return "here: small";
    case Why::kNever:
      return "here: mode is never";
    case Why::kNoServer:
      return "here: no GEMMD_SERVER";
    case Why::kNoClient:
      return "here: no client";
    case Why::kForked:
      return "here: forked";
    case Why::kHereFaster:
      return "here: faster";
    case Why::kPaused:
      return "here: server failed lately";
    case Why::kRefused:
      return "here: server refused";
    case Why::kFailed:
      return "here: server failed";
    case Why::kTooSlow:
      return "here: server too slow";
    case Why::kNoMemory:
      return "here: no memory";
    case Why::kNoFortran:
      return "here: no Fortran names";
  }
  return "";
}

}  // namespace gemmd::blas
