// tcgen05: matrix products in tensor memory, and what moves data there and back. PTX ISA,
// "TensorCore 5th Generation Family Instructions".
//
// Asynchronous operations land when they like but for pipelined pairs (tensor_memory.h); what is
// not ordered there is a violation where it conflicts. All of a kernel's instructions say the same
// `group`: 1, or 2 for the blocks of ranks 2 * i and 2 * i + 1 together.
//
// Not emulated, and reported: .ws, .sp, kinds but f16, mxf8f6f4, mxf4 and mxf4nvf4, disabled lanes,
// scaled input, shift, A in tensor memory, st, the shapes of ld and cp that have no wrapper, M of
// 128 in a pair with scales. Blocks of different clusters do not share tensor memory here, as
// those of one multiprocessor do.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

// All lanes of a warp call it, of one warp in each block of a pair. `columns` is a power of two, 32
// to 512, and no more than of any allocation before; the address comes to shared memory at `slot`.
// Waits while too few columns are free.
void Tcgen05Alloc(std::uint32_t slot, std::uint32_t columns, std::uint32_t group,
                  const CallSite& site);
// Frees a whole allocation, in which nothing may be under way.
void Tcgen05Dealloc(std::uint32_t address, std::uint32_t columns, std::uint32_t group,
                    const CallSite& site);
// The block allocates no more.
void Tcgen05Relinquish(std::uint32_t group, const CallSite& site);

// D (+)= A * B by kind::f16, 16 deep, issued by one thread. `a` and `b` are matrix descriptors,
// which hold in each block of a pair for its own memory; `instruction` says types, shape, majors
// and signs.
struct Tcgen05Product {
  std::uint32_t group;
  std::uint32_t d;
  std::uint64_t a;
  std::uint64_t b;
  std::uint32_t instruction;
  bool accumulate;
};
void Tcgen05Multiply(const Tcgen05Product& product, const CallSite& site);

// D (+)= (A * scales of A) * (B * scales of B) by a kind with .block_scale. A and B are matrix
// descriptors, of lines of 32 bytes. Scales of rows of A lie in this block's tensor memory and
// those of the whole of B in each block's, alike in all quarters of the lanes: those of line i in
// lane i % 32, column i / 32, in the bytes that `instruction` says.
enum class Tcgen05ScaledKind : std::uint8_t {
  kMxf8f6f4,  // block32, 32 deep: elements of 8 bits, or 16 of 4 or 6 bits in the first 8 or 12
              // bytes of each 16; one E8M0 scale a line
  kMxf4,      // block32, 64 deep: e2m1, two in a byte; two E8M0 scales a line
  kMxf4nvf4,  // block16, 64 deep: the same with four scales, E4M3 without a sign or E8M0
};
struct Tcgen05ScaledProduct {
  Tcgen05ScaledKind kind;
  std::uint32_t group;
  std::uint32_t d;
  std::uint64_t a;
  std::uint64_t b;
  std::uint32_t instruction;
  std::uint32_t a_scales;
  std::uint32_t b_scales;
  bool accumulate;
};
void Tcgen05MultiplyScaled(const Tcgen05ScaledProduct& product, const CallSite& site);

// Shape 32x128b.warpx4: from shared memory, as `descriptor` says, 32 lines of 16 bytes to each
// quarter of the lanes, by one thread, in each block of a pair.
void Tcgen05Copy(std::uint32_t address, std::uint64_t descriptor, std::uint32_t group,
                 const CallSite& site);

// From tensor memory to `count` registers, by all lanes of a warp, which reach a quarter of the
// lanes: those from 32 * (warp % 4).
//   k32x32b    register i of thread t: lane t, column i
//   k16x256b   register i of thread t: lane t / 4 + 8 * (i / 2 % 2) of 16, column
//              8 * (i / 4) + 2 * (t % 4) + i % 2
// Packed, a register is the low halves of columns 2 * c and 2 * c + 1, where c is as above.
enum class Tcgen05Shape : std::uint8_t { k32x32b, k16x256b };
struct Tcgen05LoadForm {
  Tcgen05Shape shape;
  std::uint32_t count;
  bool is_packed;
  std::uint32_t address;
};
// The registers are NaN until the wait.
void Tcgen05Load(const Tcgen05LoadForm& form, std::uint32_t* registers, const CallSite& site);
void Tcgen05WaitLoad(const CallSite& site);

void Tcgen05FenceBefore(const CallSite& site);
void Tcgen05FenceAfter(const CallSite& site);

// Arrives at the mbarrier, at the same offset of each block in `mask`, once what this thread issued
// before, of products and copies, is complete.
void Tcgen05Commit(std::uint32_t mbarrier, std::uint32_t mask, std::uint32_t group,
                   const CallSite& site);

}  // namespace gemmd::emulator
