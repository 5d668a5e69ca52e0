// One block-scaled product of tcgen05, run in the emulator by a block or a pair of them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/numbers/scaling.h"
#include "kernels/emulator/launch.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "tests/kernels/emulator/tcgen05_model.h"

namespace gemmd::testing {

struct ScaledProduct {
  int blocks = 1;
  std::uint32_t columns = 32;
  ptx::Swizzle swizzle = ptx::Swizzle::kNone;
  ModelOperand a = {};  // where a block has its lines
  ModelOperand b = {};
  bool lacks_scales = false;      // of B
  std::uint32_t instruction = 0;  // the descriptor
};

// A block's shared memory, of which words that hold nothing stay unwritten.
class ScaledImage {
 public:
  static constexpr std::uint32_t kRows = 128;  // of A, a block
  static constexpr std::uint32_t kA = 0;
  static constexpr std::uint32_t kB = 32 * 1024;
  static constexpr std::uint32_t kAScales = 64 * 1024;  // a tile
  static constexpr std::uint32_t kTileBytes = 512;
  static constexpr std::uint32_t kBScales = kAScales + kTileBytes;  // two tiles
  static constexpr std::uint32_t kSlot = 68 * 1024;
  static constexpr std::uint32_t kDone = kSlot + 8;
  static constexpr std::uint32_t kBytes = 69 * 1024;

  void Set(std::uint32_t at, std::uint8_t byte) {
    bytes_.at(at) = byte;
    is_set_[at / 4] = 1;
  }

  // Fills whole tiles: scale_of(line, i) is scale i of the four of a line.
  template <typename ScaleOf>
  void PutScales(std::uint32_t at, std::uint32_t lines, const ScaleOf& scale_of) {
    for (std::uint32_t i = 0; i < (lines + 127) / 128 * kTileBytes; ++i) Set(at + i, 0);
    for (std::uint32_t line = 0; line < lines; ++line) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        const auto index =
            static_cast<std::uint32_t>(ScaleIndex(ScaleOrder::kTiles128x4, lines, 4, line, i));
        Set(at + index, scale_of(line, i));
      }
    }
  }

  // Called by all threads of a block.
  void Store() const {
    for (std::uint32_t i = 4 * ptx::ThreadIndex(); i < kSlot; i += 4 * 128) {
      if (is_set_[i / 4] == 0) continue;
      std::uint32_t word;
      std::memcpy(&word, &bytes_[i], sizeof word);
      ptx::StoreShared(ptx::SharedBase() + i, word);
    }
  }

 private:
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(kBytes);
  std::vector<std::uint8_t> is_set_ = std::vector<std::uint8_t>(kBytes / 4);
};

// The shared memory of each block of a pair.
using ScaledImages = std::array<ScaledImage, 2>;

// Rows of D are 256 apart in `out`.
template <int kGroup, ptx::Tcgen05ScaledKind kKind>
void ScaledProductKernel(const ScaledProduct& product, const ScaledImages& images, float* out) {
  using Image = ScaledImage;
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t warp = thread / 32;
  const std::uint32_t rank = kGroup == 2 ? ptx::RankInCluster() : 0;
  const ptx::SharedAddress base = ptx::SharedBase();
  images[rank].Store();
  if (thread == 0) ptx::MbarrierInit(base + Image::kDone, 1);
  ptx::FenceProxyAsync();
  ptx::FenceMbarrierInit();
  if (kGroup == 2) ptx::ClusterSync();
  if (warp == 0) ptx::Tcgen05Alloc<kGroup>(base + Image::kSlot, 512);
  ptx::SyncThreads();
  if (kGroup == 2) ptx::ClusterSync();
  const auto sums = ptx::LoadShared<std::uint32_t>(base + Image::kSlot);
  const ptx::TensorAddress a_scales = sums + 256;
  const ptx::TensorAddress b_scales = sums + 260;
  if (thread == 0 && rank == 0) {
    const auto scales = [&](std::uint32_t at) {
      return ptx::MakeTcgen05Descriptor(base + at, 0, 128, ptx::Swizzle::kNone);
    };
    ptx::Tcgen05Copy32x128b<kGroup>(a_scales, scales(Image::kAScales));
    const std::uint32_t tiles = product.lacks_scales ? 0 : (product.columns + 127) / 128;
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
      ptx::Tcgen05Copy32x128b<kGroup>(b_scales + 4 * tile,
                                      scales(Image::kBScales + tile * Image::kTileBytes));
    }
    const auto lines = [&](std::uint32_t at, const ModelOperand& operand) {
      return ptx::MakeTcgen05Descriptor(base + at, operand.leading, operand.stride,
                                        product.swizzle);
    };
    ptx::Tcgen05MultiplyMx<kGroup, kKind>(sums, lines(Image::kA, product.a),
                                          lines(Image::kB, product.b), product.instruction,
                                          a_scales, b_scales, false);
    ptx::Tcgen05CommitMulticast<kGroup>(base + Image::kDone, (1u << kGroup) - 1);
  }
  ptx::MbarrierWait(base + Image::kDone, 0);
  ptx::Tcgen05FenceAfter();
  for (std::uint32_t column = 0; column < product.columns; column += 8) {
    std::uint32_t words[8];
    ptx::Tcgen05Load32x32b(words, sums + ptx::TensorLane(32 * warp) + column);
    ptx::Tcgen05WaitLoad();
    for (std::uint32_t i = 0; i < 8; ++i) {
      float sum;
      std::memcpy(&sum, &words[i], sizeof sum);
      ptx::StoreGlobal(out + (rank * Image::kRows + thread) * 256 + column + i, sum);
    }
  }
  ptx::Tcgen05FenceBefore();
  ptx::SyncThreads();
  if (kGroup == 2) ptx::ClusterSync();
  if (warp == 0) ptx::Tcgen05Dealloc<kGroup>(sums, 512);
}

template <ptx::Tcgen05ScaledKind kKind>
emulator::Report RunScaledProduct(const ScaledProduct& product, const ScaledImages& images,
                                  std::uint64_t seed, std::vector<float>* out) {
  out->assign(std::size_t{2} * ScaledImage::kRows * 256, 0);
  emulator::LaunchRequest request;
  request.kernel = "scaled product";
  request.threads = 128;
  request.grid.x = request.cluster_size = static_cast<std::uint32_t>(product.blocks);
  request.shared_bytes = ScaledImage::kBytes;
  request.buffers = {{out->data(), out->size() * sizeof(float), "out", false}};
  emulator::Options options;
  options.seed = seed;
  return emulator::Launch(request, options, [&] {
    if (product.blocks == 2) {
      ScaledProductKernel<2, kKind>(product, images, out->data());
    } else {
      ScaledProductKernel<1, kKind>(product, images, out->data());
    }
  });
}

}  // namespace gemmd::testing
