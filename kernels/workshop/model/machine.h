// A B200 as the model knows it: rates in bytes and operations a clock, each with its source, or
// said to be assumed. Nothing here was fitted to the times that the model is compared with.
#pragma once

#include <cstdint>

namespace gemmd::model {

struct Machine {
  // Multiprocessors (the article, on its card). A pair of blocks has two.
  int multiprocessors = 148;
  int Pairs() const { return multiprocessors / 2; }

  // Multiply-adds of 8-bit operands a clock and multiprocessor. NVIDIA's datasheet of the HGX B200
  // gives 4.5 PFLOP/s of dense FP8 for a card. 148 multiprocessors at a boost clock of 1.98 GHz,
  // which public lists of specifications have, need 7678 for it; the power of two above that is
  // 8192.
  std::int64_t products_per_clock = 8192;
  // The clock at which 8192 give the datasheet's 4.5 PFLOP/s: 1.856 GHz. The model has no power,
  // which lowers it on a card.
  double ClockHz() const {
    return 4.5e15 / (2.0 * static_cast<double>(products_per_clock) * multiprocessors);
  }

  // Shared memory: 32 banks of 4 bytes a clock (CUDA C++ Programming Guide), for all that reads or
  // writes it.
  double shared_bytes_per_clock = 128;

  // Bytes a clock that reach a multiprocessor from L2. NVIDIA publishes none; 64 is the limit that
  // this project measured on an H200 (docs/lab/hopper-tiles.md). The other direction is assumed to
  // have the same rate.
  double port_bytes_per_clock = 64;

  // Tensor memory: 128 lanes of 512 columns of 4 bytes (PTX ISA). Columns a clock that the four
  // warps of an epilogue read: one, a register of each lane. Assumed.
  int tensor_columns = 512;
  double columns_read_per_clock = 1;

  // L2: 126 MB (the article), one half on each of two dies. A die keeps copies of what its
  // multiprocessors read from the other half, as the A100's two partitions do (its whitepaper).
  int dies = 2;
  double l2_bytes = 126e6;
  // Clusters are dealt to the GPCs in turn, as on this project's H200 (docs/lab/hopper-tiles.md).
  // Eight GPCs, four on each die: assumed; the page shows other numbers, too.
  int gpcs = 8;
  int DieOfPair(int pair) const { return dies == 1 ? 0 : pair % gpcs / (gpcs / 2); }

  // HBM3e: 8 TB/s (datasheet). Between the dies: NV-HBI, 10 TB/s (NVIDIA's announcement); that half
  // of it goes each way is assumed.
  double memory_bytes_per_second = 8e12;
  double link_bytes_per_second = 5e12;
  double MemoryBytesPerClock() const { return memory_bytes_per_second / ClockHz(); }
  double LinkBytesPerClock() const { return link_bytes_per_second / ClockHz(); }

  // Latencies, of this project's H200 for want of a Blackwell card (docs/lab/hopper-launches.md):
  // 663 clocks from a request to the first product of 16 KB that lie in L2, 256 of them at the
  // port; 1100 more from DRAM, the least that was seen; and 187 clocks of a producer's own for a
  // stage of one load, taken here for a stage of four.
  double l2_latency = 407;
  double memory_latency = 1100;
  double producer_clocks = 187;

  // Clocks of each instruction of the thread that multiplies. No source has it, so that it is left
  // out; kFittedIssueClocks (evaluation.h) is what steps 0 and 1 ask for.
  double issue_clocks = 0;
};

}  // namespace gemmd::model
