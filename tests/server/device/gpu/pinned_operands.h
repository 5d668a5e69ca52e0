// Operands in the device's own pinned memory, as a wire that fills slabs would leave them.
#pragma once

#include <cstring>
#include <random>

#include "tests/server/device/gpu/served_gpu.h"

namespace gemmd::testing {

// One contiguous run of slabs, filled with random bits that are small bf16 numbers.
class PinnedOperand {
 public:
  PinnedOperand(ServedGpu* gpu, std::uint64_t bytes, std::uint32_t seed) {
    const std::shared_ptr<PinnedPool>& pool = gpu->device->pinned();
    const std::uint64_t slab = pool->slab_bytes();
    slabs_ = Require(pool->Take((bytes + slab - 1) / slab), "pinned operand");
    // A fresh pool gives neighbours, the lowest last.
    data_ = slabs_.back().data;
    for (std::size_t i = 0; i < slabs_.size(); ++i) {
      if (slabs_[slabs_.size() - 1 - i].data == data_ + i * slab) continue;
      Require(absl::InternalError("slabs are not neighbours"), "pinned operand");
    }
    std::mt19937 random(seed);
    auto* const words = reinterpret_cast<std::uint16_t*>(data_);
    for (std::uint64_t i = 0; i < bytes / 2; ++i) {
      // 2^-2 to 2^1 with either sign.
      words[i] = static_cast<std::uint16_t>((random() & 0x81ff) | 0x3e80);
    }
  }

  const char* data() const { return data_; }

 private:
  HostBuffer slabs_;
  char* data_ = nullptr;
};

}  // namespace gemmd::testing
