// A workload: the kinds of requests that make up a load, with checked values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/data.h"
#include "client/load/results/summary.h"
#include "client/load/workload.pb.h"
#include "client/matmul.h"
#include "client/quantized/quantize.h"
#include "client/route.h"

namespace gemmd::load {

// The operands that are on the server before a load begins, and go by digest.
enum class Residents { kNone, kB, kBoth };

struct WorkloadEntry {
  std::string name;
  double weight = 1;
  client::MatrixFormat a;
  client::MatrixFormat b;
  // Names of base/numbers/quant/README.md: such an operand is drawn as f32 and quantized before the
  // load, along K; its type above is then that of the elements. Empty: it is not quantized.
  std::string a_quantized;
  std::string b_quantized;
  client::MatmulOptions options;
  client::RouteOptions route;
  Residents residents = Residents::kNone;
  bool is_shared = false;   // operands and results lie in memory shared with the server
  std::string tenant;       // empty: the caller's
  absl::Duration deadline;  // zero: the caller's
  DataSpec data;

  std::uint64_t m() const { return a.rows; }
  std::uint64_t n() const { return b.columns; }
  std::uint64_t k() const { return a.columns; }
  const std::string& quantized(client::Side side) const {
    return side == client::Side::kA ? a_quantized : b_quantized;
  }
  DataType output_type() const;
  // "bf16", a format's name, or both operands' where they differ: "bf16,int4-g128-f16".
  std::string type_name() const;
  // Bytes of A and B where they travel, scales included, of D, and 2 M N K.
  EntryCost cost() const;
};

using Workload = std::vector<WorkloadEntry>;

// INVALID_ARGUMENT names request, field, value and limit.
absl::StatusOr<Workload> MakeWorkload(const WorkloadFile& file);

// INVALID_ARGUMENT has line and column.
absl::StatusOr<WorkloadFile> ParseWorkloadFile(const std::string& text);

}  // namespace gemmd::load
