// Cuts a product into products of some of its rows each. Values; no gRPC.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/matmul.h"

namespace gemmd::client {

// Rows of op(A), of C and of D.
struct RowRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
};

struct CutPolicy {
  // A part begins at a multiple of so many rows: blocks of scales and packed elements are whole.
  std::uint64_t tile_rows = 128;
  // No part has less to compute. It is 5 ms of a server's work at 50 GFLOP/s, many times what a
  // call costs.
  double least_part_flops = double{1 << 28};
};

// Refuses, by its name, what has no rows to be cut, or what one server alone would have.
absl::Status CheckSplit(const MatmulInputs& inputs, const MatmulOptions& options);

// Returns the rows of each part: as many parts as there are servers or fewer, equal up to a tile.
// REQUIRES: CheckSplit() is OK, servers > 0.
std::vector<RowRange> CutRows(const MatmulInputs& inputs, const MatmulOptions& options, int servers,
                              const CutPolicy& policy);

// Returns the inputs of these rows. They share the whole ones' bytes where rows lie together, as
// those of a row-major A do; others are copied, tightly packed. INVALID_ARGUMENT: an operand has
// not as many rows as A.
absl::StatusOr<MatmulInputs> InputsOf(const MatmulInputs& inputs, const MatmulOptions& options,
                                      const RowRange& rows);

}  // namespace gemmd::client
