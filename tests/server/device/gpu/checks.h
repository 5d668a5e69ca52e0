// The checks that are run on a GPU; each adds its findings to the report.
#pragma once

#include <string>

#include "tests/server/device/gpu/report.h"

namespace gemmd::testing {

// Products of every plain type through the device against binary64: ragged shapes, both
// orders, epilogues, and large ones in panels.
void CheckProducts(GpuReport* report);
// Random products of every quantized format that is decoded, and of fp8 with scales of blocks of
// 128 by the library's kernels, within the kernels' bounds; of one format alone if `only` names it.
void CheckQuantized(int products, const std::string& only, GpuReport* report);
// Products of resident quantized matrices, by what each class of determinism selects: microseconds
// a launch, launches back to back on operands that no cache holds, beside bf16's.
void MeasureQuantized(GpuReport* report);
// 100,000 mixed jobs from several threads: accounting at zero, host memory flat.
void CheckAccounting(int jobs, GpuReport* report);
// Stages against CUPTI's activity records, and what no stage covers.
void CheckReceipts(GpuReport* report);
// A stream of 4096^3 bf16 jobs from pinned memory against the larger of copies and kernels.
void MeasureStream(GpuReport* report);
// Measures a stream of 4096^3 bf16 jobs from ordinary memory, which is gathered first.
void MeasureGatheredStream(GpuReport* report);
// A one-row job on a resident B against a bare copy, kernel and copy with polling.
void MeasureLatency(GpuReport* report);
// Rows, groups and slices: each work's bits are those it has alone.
void CheckBatches(GpuReport* report);
// One-row works on a resident 8192 x 8192 bf16 B, 1 to 256 of them a launch.
void MeasureRows(GpuReport* report);
// Kernel-bound jobs on two GPUs against one.
void MeasureTwoGpus(GpuReport* report);
// An illegal access: UNAVAILABLE for what is in flight, told once, at once. The process has
// no device afterwards.
void CheckLoss(GpuReport* report);

}  // namespace gemmd::testing
