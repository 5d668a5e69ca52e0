// A kernel of one TMA load, a dump of what it left in shared memory, and one TMA store of the
// same bytes, for comparing the emulator with a GPU byte by byte.
#pragma once

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::ptx {

inline namespace GEMMD_BACKEND {

struct TensorCopyProbeParams {
  TensorMap in;
  TensorMap out;
  std::uint32_t* dump;  // box_bytes
  std::uint32_t box_bytes;
  std::int32_t load_x;
  std::int32_t load_y;
  std::int32_t store_x;
  std::int32_t store_y;
  bool stores;
};

constexpr std::uint32_t TensorCopyProbeSharedBytes(std::uint32_t box_bytes) {
  return (box_bytes + 127) / 128 * 128 + kMbarrierBytes;
}

GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(32, 1)
    TensorCopyProbe(const GEMMD_GRID_CONSTANT TensorCopyProbeParams params) {
  const std::uint32_t thread = ThreadIndex();
  const SharedAddress box = SharedBase();
  const SharedAddress mbarrier = box + (params.box_bytes + 127) / 128 * 128;
  if (thread == 0) {
    MbarrierInit(mbarrier, 1);
    FenceMbarrierInit();
  }
  SyncThreads();
  if (thread == 0) {
    MbarrierArriveExpect(mbarrier, params.box_bytes);
    TensorLoad2D(box, &params.in, params.load_x, params.load_y, mbarrier);
  }
  MbarrierWait(mbarrier, 0);
  for (std::uint32_t i = thread; i < params.box_bytes / 4; i += 32) {
    StoreGlobal(params.dump + i, LoadShared<std::uint32_t>(box + 4 * i));
  }
  if (thread == 0 && params.stores) {
    TensorStore2D(&params.out, box, params.store_x, params.store_y);
    BulkCommit();
    BulkWait<0>();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
