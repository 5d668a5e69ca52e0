// The kernels of ladder C (ladder_c_steps.h says what each step changes).
#pragma once

#include "kernels/mma/issuer.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "kernels/ptx/tensor_copy.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_params.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_steps.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_types.h"
#include "kernels/workshop/blackwell_bf16/naive_product.h"

namespace gemmd::blackwell_bf16 {
inline namespace GEMMD_BACKEND {

// One thread's part in computing one tile of D on tcgen05. Thread 0 asks for loads and products, a
// tile of K at a time, and waits for both, so that nothing overlaps; everybody waits for thread 0.
// (Were all to wait for each mbarrier, thread 0 could be two phases ahead of a slow warp, which
// would then wait for ever, or not at all: a parity tells two phases apart, not three.)
template <class Step, class Types, ptx::Major kBMajor>
class LadderCWorker {
 public:
  GEMMD_DEVICE LadderCWorker(const LadderCParams& params, const mma::TileCorner& corner)
      : params_(params),
        thread_(ptx::ThreadIndex()),
        lane_(thread_ % 32),
        warp_(thread_ / 32),
        corner_(corner),
        shared_(ptx::SharedBase()) {}

  GEMMD_DEVICE void Run() {
    Start();
    if (Issues()) AddTiles();
    ptx::SyncThreads();
    LoadSums();
    Finish();
  }

 private:
  using Layout = LadderCLayout<Step>;
  using A = typename Layout::A;
  using B = OperandTile<Step, kBMajor, Step::kTileN>;
  static constexpr std::uint32_t kColumns = Step::kColumns;
  static constexpr int kSums = Step::kTileN / 2;  // a thread: 16 rows a warp
  static constexpr ptx::Swizzle kSwizzle =
      Step::kSwizzle ? ptx::Swizzle::k128B : ptx::Swizzle::kNone;

  GEMMD_DEVICE bool Issues() const { return warp_ == 0 && mma::IsIssuer<Step::kElects>(); }

  // Tensor memory, and the mbarriers: loads and products each complete a phase a tile.
  GEMMD_DEVICE void Start() {
    if (warp_ == 0) {
      ptx::Tcgen05Alloc(shared_ + Layout::kSlot, kColumns);
      ptx::Tcgen05Relinquish();
    }
    if (thread_ == 0) {
      ptx::PrefetchTensorMap(&params_.a);
      ptx::PrefetchTensorMap(&params_.b);
      ptx::MbarrierInit(shared_ + Layout::kLoaded, 1);
      ptx::MbarrierInit(shared_ + Layout::kMultiplied, 1);
      ptx::FenceMbarrierInit();
    }
    ptx::SyncThreads();
    sums_at_ = ptx::LoadShared<std::uint32_t>(shared_ + Layout::kSlot);
  }

  GEMMD_DEVICE void AddTiles() const {
    std::uint32_t parity = 0;
    for (std::int32_t k = 0; k < params_.gemm.k; k += Step::kTileK) {
      LoadTiles(k);
      ptx::MbarrierWait(shared_ + Layout::kLoaded, parity);
      MultiplyTiles(k > 0);
      ptx::MbarrierWait(shared_ + Layout::kMultiplied, parity);
      parity ^= 1;
    }
  }

  // A tile of A and one of B, box by box along their lines. Elements outside the matrices become
  // zero.
  GEMMD_DEVICE void LoadTiles(std::int32_t k) const {
    const std::int32_t b_x = kBMajor == ptx::Major::kK ? k : corner_.column;
    const std::int32_t b_y = kBMajor == ptx::Major::kK ? corner_.column : k;
    ptx::MbarrierArriveExpect(shared_ + Layout::kLoaded, A::kBytes + B::kBytes);
    LoadTile<A>(shared_ + Layout::kA, &params_.a, k, corner_.row);
    LoadTile<B>(shared_ + Layout::kB, &params_.b, b_x, b_y);
  }

  template <class Tile>
  GEMMD_DEVICE void LoadTile(ptx::SharedAddress to, const ptx::TensorMap* map, std::int32_t x,
                             std::int32_t y) const {
    GEMMD_UNROLL
    for (int box = 0; box < Tile::kBoxes; ++box) {
      ptx::TensorLoad2D(to + box * Tile::kBoxBytes, map, x + box * Tile::kBoxElements, y,
                        shared_ + Layout::kLoaded);
    }
  }

  // Four products, 16 of K each.
  GEMMD_DEVICE void MultiplyTiles(bool accumulate) const {
    constexpr std::uint32_t kInstruction = MakeInstruction();
    GEMMD_UNROLL
    for (int step = 0; step < Step::kTileK / 16; ++step) {
      const std::uint64_t a = ptx::MakeTcgen05Descriptor(
          shared_ + Layout::kA + step * A::kStepBytes, A::kLeadingBytes, A::kStrideBytes, kSwizzle);
      const std::uint64_t b = ptx::MakeTcgen05Descriptor(
          shared_ + Layout::kB + step * B::kStepBytes, B::kLeadingBytes, B::kStrideBytes, kSwizzle);
      ptx::Tcgen05Multiply(sums_at_, a, b, kInstruction, accumulate || step > 0);
    }
    ptx::Tcgen05Commit(shared_ + Layout::kMultiplied);
  }

  static constexpr std::uint32_t MakeInstruction() {
    ptx::Tcgen05Form form;
    form.type = Types::kType;
    form.rows = Step::kTileM;
    form.columns = Step::kTileN;
    form.b_major = kBMajor;
    return ptx::MakeTcgen05Instruction(form);
  }

  // The warp's 16 rows: with M of 64 they are the first half of its quarter of the lanes. Register
  // i is row lane / 4 + 8 * (i / 2 % 2), column 8 * (i / 4) + 2 * (lane % 4) + i % 2.
  GEMMD_DEVICE void LoadSums() {
    ptx::Tcgen05FenceAfter();
    ptx::Tcgen05Load16x256b(sum_, sums_at_ + ptx::TensorLane(32 * warp_));
    ptx::Tcgen05WaitLoad();
    ptx::Tcgen05FenceBefore();
  }

  // Two sums as a word of D.
  GEMMD_DEVICE std::uint32_t Output(int i) const {
    return Types::Pack(ptx::FloatOfBits(sum_[i]), ptx::FloatOfBits(sum_[i + 1]));
  }

  GEMMD_DEVICE void Finish() {
    // TMA stores rows in units of 16 bytes: where N ends inside one, what follows is not ours.
    const bool is_whole =
        params_.gemm.n % 8 == 0 || corner_.column + Step::kTileN <= params_.gemm.n;
    const bool stores_box = Step::kTensorStores && is_whole;
    if (stores_box) {
      StageSums();
    } else {
      StoreSums();
    }
    ptx::SyncThreads();
    if (warp_ == 0) ptx::Tcgen05Dealloc(sums_at_, kColumns);
    if (stores_box && Issues()) StoreBoxes();
  }

  // A word at a time, of two neighbours in a row.
  GEMMD_DEVICE void StoreSums() const {
    GEMMD_UNROLL
    for (int i = 0; i < kSums; i += 2) {
      const std::int32_t row =
          corner_.row + static_cast<std::int32_t>(warp_ * 16 + lane_ / 4 + i / 2 % 2 * 8);
      const std::int32_t column =
          corner_.column + static_cast<std::int32_t>(i / 4 * 8 + lane_ % 4 * 2);
      if (row >= params_.gemm.m || column >= params_.gemm.n) continue;
      std::uint16_t* to = params_.gemm.d + row * params_.gemm.ldd + column;
      if (column + 1 < params_.gemm.n) {
        ptx::StoreGlobal(reinterpret_cast<std::uint32_t*>(to), Output(i));
      } else {
        ptx::StoreGlobal(to, static_cast<std::uint16_t>(Output(i)));
      }
    }
  }

  // Stages the sums in the operands' place, which nobody reads any more. Each lane addresses a row
  // of one of the four 8x8 matrices in two chunks of columns.
  GEMMD_DEVICE void StageSums() const {
    using D = typename Layout::D;
    const std::uint32_t row = warp_ * 16 + lane_ % 16;
    GEMMD_UNROLL
    for (int chunk = 0; chunk < D::kRowChunks; chunk += 2) {
      const std::uint32_t words[4] = {Output(4 * chunk), Output(4 * chunk + 2),
                                      Output(4 * chunk + 4), Output(4 * chunk + 6)};
      ptx::StoreMatrix4(shared_ + Layout::kD + D::Chunk(row, chunk + lane_ / 16), words);
    }
    ptx::FenceProxyAsync();
  }

  // TMA skips columns behind the last.
  GEMMD_DEVICE void StoreBoxes() const {
    using D = typename Layout::D;
    GEMMD_UNROLL
    for (int panel = 0; panel < D::kPanels; ++panel) {
      ptx::TensorStore2D(&params_.d, shared_ + Layout::kD + panel * D::Panel::kBytes,
                         corner_.column + panel * D::Panel::kColumns, corner_.row);
    }
    ptx::BulkCommit();
    ptx::BulkWaitRead<0>();
  }

  const LadderCParams& params_;
  const std::uint32_t thread_;
  const std::uint32_t lane_;
  const std::uint32_t warp_;
  const mma::TileCorner corner_;
  const ptx::SharedAddress shared_;
  ptx::TensorAddress sums_at_ = 0;
  std::uint32_t sum_[kSums];
};

template <class Step, class Types, ptx::Major kBMajor>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kThreads, 1)
    LadderC(const GEMMD_GRID_CONSTANT LadderCParams params) {
  const mma::TileCorner corner =
      mma::RasterTile(ptx::BlockIndexX(), params.gemm, 1, Step::kTileM, Step::kTileN);
  if constexpr (Step::kTensorCore) {
    LadderCWorker<Step, Types, kBMajor> worker(params, corner);
    worker.Run();
  } else {
    NaiveProduct<Step, Types, kBMajor>(params.gemm, corner);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_bf16
