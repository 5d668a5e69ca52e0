// A batch's arenas on the GPU of this machine.
#pragma once

#include <vector>

#include "tests/kernels/hopper/half/hopper_batch.h"
#include "tests/kernels/mma/gpu_matrix.h"

namespace gemmd::testing {

class BatchOnGpu {
 public:
  explicit BatchOnGpu(BatchArenas* batch)
      : batch_(*batch),
        a_(batch->a.size()),
        b_(batch->b.size()),
        c_(batch->c_plane.size()),
        bias_(batch->bias.size()),
        d_(batch->d.size()) {
    a_.Put(batch->a.data());
    b_.Put(batch->b.data());
    c_.Put(batch->c_plane.data());
    bias_.Put(batch->bias.data());
    Poison();
  }

  std::vector<Arguments> arguments() const {
    return batch_.At(a_.data(), b_.data(), c_.data(), bias_.data(), d_.data());
  }
  void Poison() { d_.Put(batch_.d.data()); }
  std::vector<unsigned char> Result() const {
    std::vector<unsigned char> bytes(d_.bytes());
    d_.Get(bytes.data());
    return bytes;
  }

 private:
  BatchArenas& batch_;
  GpuMatrix a_;
  GpuMatrix b_;
  GpuMatrix c_;
  GpuMatrix bias_;
  GpuMatrix d_;
};

}  // namespace gemmd::testing
