// Random TMA copies: a load, a dump of what it left in shared memory, and a store of the same
// bytes; every coordinate that the hardware takes, inside, across every edge and outside.
// Host code: the kernel is tests/kernels/ptx/tensor_copy_probe.h.
#pragma once

#include <cstdint>
#include <vector>

namespace gemmd::conformance {

// In the order of ptx::TensorElement.
enum class CopyElement : std::uint8_t { kU8, kF16, kBf16, kF32, kU32 };

struct RandomCopy {
  CopyElement element = CopyElement::kU8;
  std::uint32_t swizzle = 0;  // bytes: 0, 32, 64 or 128
  std::uint32_t columns = 0;
  std::uint32_t rows = 0;
  std::uint32_t pitch = 0;  // bytes
  std::uint32_t box[2] = {};
  std::int32_t load[2] = {};
  std::int32_t store[2] = {};
  // The bytes of the tensor that is loaded from and of the one that is stored into.
  std::vector<std::uint32_t> in;
  std::vector<std::uint32_t> out;

  std::uint32_t element_bytes() const;
  std::uint32_t box_bytes() const { return box[0] * box[1] * element_bytes(); }
};

// Bytes of a case's results at most: the dumped box, then the tensor that was stored into.
inline constexpr std::uint32_t kMostBoxBytes = 24 * 256;
inline constexpr std::uint32_t kMostTensorBytes = 40 * 512;
inline constexpr std::uint32_t kTensorCopyWords = (kMostBoxBytes + kMostTensorBytes) / 4;

// Case `number` of the set whose number is `set`.
RandomCopy MakeRandomCopy(std::uint32_t set, std::uint32_t number);

// As a kernel's VectorSink would have it.
std::uint64_t HashWords(const std::vector<std::uint32_t>& words);

}  // namespace gemmd::conformance
