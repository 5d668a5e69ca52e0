// Works whose rows are computed as one product: batches over one B. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/launch.h"

namespace gemmd {

// Returns whether the work's rows may join others': it names its weights, rows of op(A) and of D
// are lines of whole bytes in memory that the CPU may touch, D depends on no C, and A has no
// scales, or those of each row, zero points included, lie one after another.
bool HasJoinableRows(const DeviceWork& work);

// The work's problem with `rows` rows, all in one plane: op(A) and D row-major with tight lines.
// REQUIRES: HasJoinableRows(work).
Problem WithRows(const DeviceWork& work, std::int64_t rows);
// The problem with the rows of all works, in one plane: op(A) and D row-major with tight lines.
// REQUIRES: not empty; the works may share a launch, see DeviceLaunch::Rows().
Problem JoinedRows(const std::vector<DeviceWork>& works);

// The rows of op(A), or of D, of a work that has joinable rows: `rows` pieces of `width`
// bytes, `pitch` bytes apart.
struct RowSpan {
  std::int64_t rows = 0;
  std::uint64_t width = 0;
  std::uint64_t pitch = 0;
};
RowSpan RowsOfA(const Problem& problem);
RowSpan RowsOfD(const Problem& problem);

}  // namespace gemmd
