#include "server/device/device.h"

namespace gemmd {

std::uint64_t InFlightBytes(const Problem& problem) {
  std::uint64_t bytes = problem.a.size_bytes() + problem.b.size_bytes() + problem.d.size_bytes();
  if (problem.epilogue.beta != 0) bytes += problem.c.size_bytes();
  if (problem.epilogue.has_bias) {
    bytes += static_cast<std::uint64_t>(problem.n) * SizeBits(problem.d.type) / 8;
  }
  return bytes;
}

}  // namespace gemmd
