// What a load consists of: kinds of requests, checked values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/data.h"
#include "client/load/summary.h"
#include "client/load/workload.pb.h"
#include "client/matmul.h"
#include "client/route.h"

namespace gemmd::load {

struct WorkloadEntry {
  std::string name;
  double weight = 1;
  client::MatrixFormat a;
  client::MatrixFormat b;
  client::MatmulOptions options;
  client::RouteOptions route;
  bool is_shared = false;   // operands and results lie in memory shared with the server
  absl::Duration deadline;  // zero: the caller's
  DataSpec data;

  std::uint64_t m() const { return a.rows; }
  std::uint64_t n() const { return b.columns; }
  std::uint64_t k() const { return a.columns; }
  DataType output_type() const;
  // Bytes of A and B, of D, and 2 M N K.
  EntryCost cost() const;
};

using Workload = std::vector<WorkloadEntry>;

// INVALID_ARGUMENT names request, field, value and limit. UNIMPLEMENTED where an entry
// asks for a way to send operands or a tenant that this version does not have: it has no
// resident operands and no tenants.
absl::StatusOr<Workload> MakeWorkload(const WorkloadFile& file);

// INVALID_ARGUMENT has line and column.
absl::StatusOr<WorkloadFile> ParseWorkloadFile(const std::string& text);

}  // namespace gemmd::load
