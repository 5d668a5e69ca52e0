// Makes one kernel source compile twice: by nvcc for a GPU, and by any C++17 compiler for the
// emulator (kernels/emulator/). Every other header here builds on it.
//
// Rules for kernel source, which tests/kernels/ptx:purity_test enforces:
//   * no inline assembly, threadIdx, __syncthreads, __shared__ or __half: only the
//     wrappers of kernels/ptx/;
//   * kernels, their parameters and their helpers live in the inline namespace
//     GEMMD_BACKEND, so that both compilations can be linked into one program;
//   * one plain parameter struct by value, holding pointers, sizes and tensor maps;
//   * shared memory is a 32-bit address (SharedAddress), never a C++ pointer.
#pragma once

#include <cstdint>

#ifdef __CUDACC__

#define GEMMD_BACKEND cuda
#define GEMMD_KERNEL __global__
#define GEMMD_DEVICE __device__ __forceinline__
// At most `threads` threads a block; registers are limited so that `blocks` fit.
#define GEMMD_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define GEMMD_GRID_CONSTANT __grid_constant__
#define GEMMD_UNROLL _Pragma("unroll")
#define GEMMD_NO_UNROLL _Pragma("unroll 1")
// The two meanings of a wrapper.
#define GEMMD_ON_DEVICE(...) __VA_ARGS__
#define GEMMD_IN_EMULATOR(...)
// A last parameter by which the emulator learns who called; absent on the device.
#define GEMMD_SITE
#define GEMMD_ONLY_SITE

#else

#include "kernels/emulator/machine/call_site.h"

#define GEMMD_BACKEND emulated
#define GEMMD_KERNEL inline
#define GEMMD_DEVICE inline
#define GEMMD_LAUNCH_BOUNDS(threads, blocks)
#define GEMMD_GRID_CONSTANT
#define GEMMD_UNROLL
#define GEMMD_NO_UNROLL
#define GEMMD_ON_DEVICE(...)
#define GEMMD_IN_EMULATOR(...) __VA_ARGS__
#define GEMMD_SITE , ::gemmd::emulator::CallSite site = ::gemmd::emulator::CallSite::Here()
#define GEMMD_ONLY_SITE ::gemmd::emulator::CallSite site = ::gemmd::emulator::CallSite::Here()

#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// An address in the state space .shared: 32 bits, in bytes.
using SharedAddress = std::uint32_t;

// 16 bytes that one instruction moves.
struct alignas(16) Vector4 {
  std::uint32_t x;
  std::uint32_t y;
  std::uint32_t z;
  std::uint32_t w;
};

// The features that the code may use in the compilation at hand. The host pass of nvcc says yes to
// all; a kernel tests them by `if constexpr`, so that it compiles for every target.
#if defined(__CUDA_ARCH__)
inline constexpr bool kHasBulkCopies = __CUDA_ARCH__ >= 900;  // TMA, clusters, mbarrier waits
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWarpgroupMma = true;  // wgmma, setmaxnreg
#else
inline constexpr bool kHasWarpgroupMma = false;
#endif
// Threads that a multiprocessor holds: CUDA C++ Programming Guide, "Compute Capabilities".
inline constexpr int kMultiprocessorThreads = __CUDA_ARCH__ >= 1200 ? 1536 : 2048;
#else
inline constexpr bool kHasBulkCopies = true;
inline constexpr bool kHasWarpgroupMma = true;
inline constexpr int kMultiprocessorThreads = 2048;
#endif

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
