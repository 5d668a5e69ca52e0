// A request as it was sent: decoded, and not yet believed.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/order/k_order.h"
#include "base/time/clock.h"
#include "kernels/gemm.h"
#include "server/scheduling/job.h"
#include "server/store/operand_store.h"
#include "server/tenants/tenant.h"

namespace gemmd {

struct PlaneSpec {
  DataType type = DataType::kF32;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  Order order = Order::kRowMajor;
  std::uint64_t leading_dimension = 0;  // 0: tight
};

enum class Source : std::uint8_t { kInline, kResident, kShared };

// Bytes of a region (server/regions) from there on.
struct SharedMemorySpec {
  std::string region;  // its secret id
  std::uint64_t offset = 0;
};

// A resident operand as a stack: matrices of one shape, one behind the other.
struct StackSpec {
  std::int64_t matrices = 1;  // that it has
  std::int64_t first = 0;     // that the first product takes
  std::int64_t each = 0;      // from one product's to the next one's
  bool lies_along_k = false;  // its matrices follow each other along K
  // The planes that all matrices share.
  OperandPlanes<bool> shares;
};

struct OperandSpec {
  PlaneSpec data;
  bool has_data = true;  // false, of a resident operand: its own planes are meant
  std::optional<PlaneSpec> scales;
  std::optional<PlaneSpec> zero_points;
  std::optional<PlaneSpec> tensor_scale;
  std::optional<PlaneSpec> offsets;
  std::optional<BlockScaling> blocks;  // of scales, zero points and offsets
  KOrder k_order;                      // null: K lies in the order of the product
  Source source = Source::kInline;
  OperandKey resident;                  // with kResident
  bool is_found = false;                // and it is on this server
  std::optional<std::uint64_t> matrix;  // of a resident stack: the one to take, or to begin with
  std::optional<StackSpec> stack;       // of one that was found
  SharedMemorySpec shared;              // with kShared
};

// D stays on the server, and no payload comes back.
struct KeepResult {
  std::optional<TimeNs> lease;  // absent: the server's default
};

enum class OperandName : std::uint8_t { kA, kB, kC, kBias };
inline constexpr int kOperandCount = 4;
absl::string_view Name(OperandName operand);

// "a" for data, "a.scales" for scales, and so on.
std::string Name(OperandName operand, PlaneName plane);

// A plane by the name of the wire, and by that of the work.
struct OperandPlane {
  OperandName operand = OperandName::kA;
  PlaneName name = PlaneName::kData;
  WorkPlane plane = WorkPlane::kA;
};
// In the order of the wire: operand by operand. C and bias have data alone.
inline constexpr OperandPlane kOperandPlanes[] = {
    {OperandName::kA, PlaneName::kData, WorkPlane::kA},
    {OperandName::kA, PlaneName::kScales, WorkPlane::kAScales},
    {OperandName::kA, PlaneName::kZeroPoints, WorkPlane::kAZeroPoints},
    {OperandName::kA, PlaneName::kTensorScale, WorkPlane::kATensorScale},
    {OperandName::kA, PlaneName::kOffsets, WorkPlane::kAOffsets},
    {OperandName::kB, PlaneName::kData, WorkPlane::kB},
    {OperandName::kB, PlaneName::kScales, WorkPlane::kBScales},
    {OperandName::kB, PlaneName::kZeroPoints, WorkPlane::kBZeroPoints},
    {OperandName::kB, PlaneName::kTensorScale, WorkPlane::kBTensorScale},
    {OperandName::kB, PlaneName::kOffsets, WorkPlane::kBOffsets},
    {OperandName::kC, PlaneName::kData, WorkPlane::kC},
    {OperandName::kBias, PlaneName::kData, WorkPlane::kBias},
};
static_assert(std::size(kOperandPlanes) == kWorkPlaneCount);

// Nothing: operands of that name have no such plane.
std::optional<WorkPlane> WorkPlaneOf(OperandName operand, PlaneName plane);

// Part of one plane's bytes: the pieces one after another, in somebody else's memory.
struct PayloadChunk {
  OperandName operand = OperandName::kA;
  PlaneName plane = PlaneName::kData;
  std::uint64_t offset = 0;
  absl::Span<const absl::string_view> pieces;
};

// The largest batch.count.
inline constexpr std::uint64_t kMostProducts = 1 << 24;
// And that of groups, for each of which admission may choose a plan.
inline constexpr std::uint64_t kMostGroups = 4096;

// As gemmd.v1.StridedBatch.
struct BatchSpec {
  std::uint64_t count = 0;
  std::uint64_t a_stride = 0;
  std::uint64_t b_stride = 0;
  std::uint64_t c_stride = 0;
  std::uint64_t bias_stride = 0;
  std::uint64_t output_stride = 0;           // 0: results follow each other
  std::vector<std::uint64_t> row_ends = {};  // not empty: of groups
};

// The fields of gemmd.v1.MatmulHeader; absent optionals mean the defaults stated there.
struct MatmulCall {
  std::optional<OperandSpec> a;
  std::optional<OperandSpec> b;
  std::optional<OperandSpec> c;
  std::optional<OperandSpec> bias;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;
  Activation activation = Activation::kNone;
  std::optional<DataType> output_type;
  Order output_order = Order::kRowMajor;
  std::uint64_t output_leading_dimension = 0;
  std::optional<DataType> accumulate_type;
  Determinism determinism = Determinism::kBatchInvariant;
  std::string kernel;
  Priority priority = Priority::kNormal;
  std::uint32_t verification_vectors = 0;
  TimeNs start_by = kNoDeadline;  // the product ends where it has not begun by then
  std::optional<KeepResult> keep_result;
  std::optional<SharedMemorySpec> output;  // where D goes; absent: back to the client
  std::optional<BatchSpec> batch;
  Tenant tenant;                   // whose resident operands are meant
  std::uint64_t connection = 0;    // tells from others the one that it came over
  std::string peer;                // the address that it came from, without its port
  std::string endpoint;            // that address with its port; for logs
  bool came_before_drain = false;  // though its message may have ended later

  const std::optional<OperandSpec>& operand(OperandName name) const;
};

}  // namespace gemmd
