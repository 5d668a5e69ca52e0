// TMA: tiles of a tensor between global and shared memory (sm_90). One thread issues a
// copy. PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor".
//
// In shared memory a box is its rows one after another, swizzled as its map says, at an
// address aligned to 128 bytes and to the swizzle's period (8 spans). A load fills what
// lies outside the tensor with zeros and counts the whole box's bytes on its mbarrier. A
// store skips what lies outside, in the first dimension in units of 16 bytes. The first
// coordinate is a multiple of 16 bytes, and no coordinate of a store is negative (an H200
// ends the kernel with "illegal instruction" otherwise); a load may start before the tensor.
//
// Tile mode alone: im2col, which gathers a convolution's windows, has no use in a matrix
// product, whose operands are boxes of a dense tensor.
#pragma once

#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_map.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/tensor_copy.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// prefetch.tensormap: the map will be used soon. PTX ISA, "Data Movement and Conversion
// Instructions: prefetch, prefetchu". The map is one of MakeTensorMap().
GEMMD_DEVICE void PrefetchTensorMap(const TensorMap* map GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");)
  GEMMD_IN_EMULATOR(emulator::CheckTensorMap(map, "prefetch.tensormap", site);)
}

// cp.async.bulk.prefetch.tensor.2d.L2.global.tile: the box will be loaded soon. No access and
// no order; coordinates as a load's. PTX ISA, "cp.async.bulk.prefetch.tensor".
GEMMD_DEVICE void TensorPrefetch2D(const TensorMap* map, std::int32_t x,
                                   std::int32_t y GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map),
                   "r"(x), "r"(y)
                   : "memory");)
  GEMMD_IN_EMULATOR(emulator::TensorPrefetch(*map, {{x, y}}, site);)
}

// .2d.shared::cta.global.tile.mbarrier::complete_tx::bytes: the box with its corner at
// element (x, y) to `destination` of this block. (With .shared::cluster ptxas of CUDA 13.0 makes of
// each load on sm_120a a call besides, for other blocks' memory; on sm_90a both are the same code.)
GEMMD_DEVICE void TensorLoad2D(SharedAddress destination, const TensorMap* map, std::int32_t x,
                               std::int32_t y, SharedAddress mbarrier GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile"
                   ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(destination),
                   "l"(map), "r"(mbarrier), "r"(x), "r"(y)
                   : "memory");)
  GEMMD_IN_EMULATOR(
      emulator::TensorLoad(destination, *map, {{x, y}}, mbarrier, 1u << (destination >> 24), site);)
}

// With .multicast::cluster: to the same offset of every block whose bit is set in `mask`,
// each completing on its own mbarrier at the offset of `mbarrier`.
GEMMD_DEVICE void TensorLoad2DMulticast(SharedAddress destination, const TensorMap* map,
                                        std::int32_t x, std::int32_t y, SharedAddress mbarrier,
                                        std::uint32_t mask GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                               ".mbarrier::complete_tx::bytes.multicast::cluster"
                               " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(destination),
                               "l"(map), "r"(mbarrier), "r"(x), "r"(y),
                               "h"(static_cast<std::uint16_t>(mask))
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::TensorLoad(destination, *map, {{x, y}}, mbarrier, mask, site);)
}

// The policy by which lines of a load stay in the L2: the words that createpolicy.fractional gives
// for all of an access. PTX ISA, "Data Movement and Conversion Instructions: createpolicy". A hint.
enum class CachePolicy : std::uint64_t {
  kNormal = 0x1000000000000000,
  kEvictFirst = 0x12f0000000000000,
};

// TensorLoad2D() and TensorLoad2DMulticast() with .L2::cache_hint.
GEMMD_DEVICE void TensorLoad2DCached(SharedAddress destination, const TensorMap* map,
                                     std::int32_t x, std::int32_t y, SharedAddress mbarrier,
                                     CachePolicy policy GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                               ".mbarrier::complete_tx::bytes.L2::cache_hint"
                               " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(destination),
                               "l"(map), "r"(mbarrier), "r"(x), "r"(y),
                               "l"(static_cast<std::uint64_t>(policy))
                               : "memory");)
  GEMMD_IN_EMULATOR(static_cast<void>(policy); emulator::TensorLoad(
                        destination, *map, {{x, y}}, mbarrier, 1u << (destination >> 24), site);)
}

GEMMD_DEVICE void TensorLoad2DMulticastCached(SharedAddress destination, const TensorMap* map,
                                              std::int32_t x, std::int32_t y,
                                              SharedAddress mbarrier, std::uint32_t mask,
                                              CachePolicy policy GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                               ".mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
                               " [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(destination),
                               "l"(map), "r"(mbarrier), "r"(x), "r"(y),
                               "h"(static_cast<std::uint16_t>(mask)),
                               "l"(static_cast<std::uint64_t>(policy))
                               : "memory");)
  GEMMD_IN_EMULATOR(static_cast<void>(policy);
                    emulator::TensorLoad(destination, *map, {{x, y}}, mbarrier, mask, site);)
}

// TensorLoad2DCached() of a map of three dimensions: element (x, y, z).
GEMMD_DEVICE void TensorLoad3DCached(SharedAddress destination, const TensorMap* map,
                                     std::int32_t x, std::int32_t y, std::int32_t z,
                                     SharedAddress mbarrier, CachePolicy policy GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                               ".mbarrier::complete_tx::bytes.L2::cache_hint"
                               " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
                               "l"(map), "r"(mbarrier), "r"(x), "r"(y), "r"(z),
                               "l"(static_cast<std::uint64_t>(policy))
                               : "memory");)
  GEMMD_IN_EMULATOR(static_cast<void>(policy); emulator::TensorLoad(
                        destination, *map, {{x, y, z}}, mbarrier, 1u << (destination >> 24), site);)
}

// TensorLoad2DMulticastCached() of a map of three dimensions.
GEMMD_DEVICE void TensorLoad3DMulticastCached(SharedAddress destination, const TensorMap* map,
                                              std::int32_t x, std::int32_t y, std::int32_t z,
                                              SharedAddress mbarrier, std::uint32_t mask,
                                              CachePolicy policy GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                               ".mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
                               " [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(destination),
                               "l"(map), "r"(mbarrier), "r"(x), "r"(y), "r"(z),
                               "h"(static_cast<std::uint16_t>(mask)),
                               "l"(static_cast<std::uint64_t>(policy))
                               : "memory");)
  GEMMD_IN_EMULATOR(static_cast<void>(policy);
                    emulator::TensorLoad(destination, *map, {{x, y, z}}, mbarrier, mask, site);)
}

// The box of a map of four dimensions.
GEMMD_DEVICE void TensorLoad4D(SharedAddress destination, const TensorMap* map,
                               const std::int32_t (&at)[4], SharedAddress mbarrier GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.4d.shared::cta.global.tile"
                               ".mbarrier::complete_tx::bytes"
                               " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(destination),
                               "l"(map), "r"(mbarrier), "r"(at[0]), "r"(at[1]), "r"(at[2]),
                               "r"(at[3])
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::TensorLoad(destination, *map, {{at[0], at[1], at[2], at[3]}},
                                         mbarrier, 1u << (destination >> 24), site);)
}

// Bit 24 of an address of the state space .shared::cluster tells the two blocks of a pair apart.
inline constexpr SharedAddress kOddBlock = 1u << 24;

// With .cta_group::2 (sm_100a): to this block, on the mbarrier at the offset of `mbarrier` in the
// block of even rank of its pair.
GEMMD_DEVICE void TensorLoad2DOfPair(SharedAddress destination, const TensorMap* map,
                                     std::int32_t x, std::int32_t y,
                                     SharedAddress mbarrier GEMMD_SITE) {
  GEMMD_ON_DEVICE(
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                   ".mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%3, %4}], [%2];" ::"r"(
                       destination),
                   "l"(map), "r"(mbarrier & ~kOddBlock), "r"(x), "r"(y)
                   : "memory");)
  GEMMD_IN_EMULATOR(emulator::TensorLoadOfPair(destination, *map, {{x, y}}, mbarrier & ~kOddBlock,
                                               1u << (destination >> 24), site);)
}
GEMMD_DEVICE void TensorLoad4DOfPair(SharedAddress destination, const TensorMap* map,
                                     const std::int32_t (&at)[4],
                                     SharedAddress mbarrier GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile"
                               ".mbarrier::complete_tx::bytes.cta_group::2"
                               " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(destination),
                               "l"(map), "r"(mbarrier & ~kOddBlock), "r"(at[0]), "r"(at[1]),
                               "r"(at[2]), "r"(at[3])
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::TensorLoadOfPair(destination, *map, {{at[0], at[1], at[2], at[3]}},
                                               mbarrier & ~kOddBlock, 1u << (destination >> 24),
                                               site);)
}

// With .multicast::cluster too: to the same offset of both blocks of the pair, all of it counted on
// the mbarrier of the one of even rank.
GEMMD_DEVICE void TensorLoad4DToPair(SharedAddress destination, const TensorMap* map,
                                     const std::int32_t (&at)[4],
                                     SharedAddress mbarrier GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile"
                               ".mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2"
                               " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(destination),
                               "l"(map), "r"(mbarrier & ~kOddBlock), "r"(at[0]), "r"(at[1]),
                               "r"(at[2]), "r"(at[3]), "h"(static_cast<std::uint16_t>(3))
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::TensorLoadOfPair(destination, *map, {{at[0], at[1], at[2], at[3]}},
                                               mbarrier & ~kOddBlock, 3, site);)
}

// .2d.global.shared::cta.tile.bulk_group: the box at `source` to element (x, y).
GEMMD_DEVICE void TensorStore2D(const TensorMap* map, SharedAddress source, std::int32_t x,
                                std::int32_t y GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
                               " [%0, {%2, %3}], [%1];" ::"l"(map),
                               "r"(source), "r"(x), "r"(y)
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::TensorStore(*map, source, {{x, y}}, site);)
}

GEMMD_DEVICE void TensorStore3D(const TensorMap* map, SharedAddress source, std::int32_t x,
                                std::int32_t y, std::int32_t z GEMMD_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group"
                               " [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                               "r"(source), "r"(x), "r"(y), "r"(z)
                               : "memory");)
  GEMMD_IN_EMULATOR(emulator::TensorStore(*map, source, {{x, y, z}}, site);)
}

// cp.async.bulk.commit_group: this thread's stores since the last one become a group.
GEMMD_DEVICE void BulkCommit(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.commit_group;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::BulkCommit(site);)
}

// cp.async.bulk.wait_group.read: until at most kPending of this thread's newest groups
// have shared memory left to read; the others' may then be written again. A thread waits
// for <0> before it exits.
template <int kPending>
GEMMD_DEVICE void BulkWaitRead(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");)
  GEMMD_IN_EMULATOR(emulator::BulkWaitRead(kPending, site);)
}

// cp.async.bulk.wait_group: until at most kPending of them are incomplete.
template <int kPending>
GEMMD_DEVICE void BulkWait(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");)
  GEMMD_IN_EMULATOR(emulator::BulkWait(kPending, site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
