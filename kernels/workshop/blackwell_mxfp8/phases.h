// Mbarriers that a thread takes in turn, and the parity of the phase that it waits for next.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"

namespace gemmd::blackwell_mxfp8 {
inline namespace GEMMD_BACKEND {

// The mbarriers lie one after another. With kIndexesArrays, addresses and parities are arrays that
// an index reads at run time, so that a compiler may put them into local memory; else both follow
// from the index.
template <int kCount, bool kIndexesArrays>
class Phases {
 public:
  GEMMD_DEVICE Phases(ptx::SharedAddress first, std::uint32_t parity)
      : first_(first), parity_(parity) {}

  GEMMD_DEVICE std::uint32_t index() const { return index_; }
  GEMMD_DEVICE ptx::SharedAddress address() const { return first_ + index_ * ptx::kMbarrierBytes; }
  GEMMD_DEVICE std::uint32_t parity() const { return parity_; }
  GEMMD_DEVICE void Next() {
    if (++index_ != kCount) return;
    index_ = 0;
    parity_ ^= 1;
  }

 private:
  ptx::SharedAddress first_;
  std::uint32_t parity_;
  std::uint32_t index_ = 0;
};

template <int kCount>
class Phases<kCount, true> {
 public:
  GEMMD_DEVICE Phases(ptx::SharedAddress first, std::uint32_t parity) {
    for (int i = 0; i < kCount; ++i) {
      address_[i] = first + i * ptx::kMbarrierBytes;
      parity_[i] = parity;
    }
  }

  GEMMD_DEVICE std::uint32_t index() const { return index_; }
  GEMMD_DEVICE ptx::SharedAddress address() const { return address_[index_]; }
  GEMMD_DEVICE std::uint32_t parity() const { return parity_[index_]; }
  GEMMD_DEVICE void Next() {
    parity_[index_] ^= 1;
    index_ = (index_ + 1) % kCount;
  }

 private:
  ptx::SharedAddress address_[kCount];
  std::uint32_t parity_[kCount];
  std::uint32_t index_ = 0;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_mxfp8
