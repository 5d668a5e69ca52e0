// The telemetry of one request, as a value that travels with its job.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/text/traceparent.h"
#include "base/time/clock.h"
#include "kernels/gemm.h"

namespace gemmd {

// As gemmd.v1.StageName, less one.
enum class Stage : std::uint8_t {
  kDecode,
  kAdmission,
  kQueue,
  kCopyIn,
  kCompute,
  kCopyOut,
  kEncode,
  kReceive,
  kVerify,
};

inline constexpr std::size_t kStageCount = 9;

absl::string_view Name(Stage stage);

// When one stage ran. REQUIRES: start <= end.
struct StageSpan {
  Stage stage = Stage::kDecode;
  TimeNs start = 0;
  TimeNs end = 0;
};

// Predicted times of the device's stages, as gemmd.v1.PredictedTimes.
struct PredictedTimes {
  double copy_in_us = 0;
  double compute_us = 0;
  double copy_out_us = 0;
  double device_us = 0;
};

struct Receipt {
  std::uint64_t request_id = 0;
  TimeNs arrival = 0;  // when the server had the header
  TimeNs finish = 0;   // when the receipt was written
  std::vector<StageSpan> spans;

  std::string tenant;    // as Tenant::key() has it
  std::string endpoint;  // of the client, as MatmulCall has it
  std::int64_t m = 0;    // of the problem
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::string types;  // as TypesOf() has it
  std::string device;
  std::string kernel;
  std::string plan;
  std::string numerics_id;
  Determinism determinism = Determinism::kBatchInvariant;
  std::uint64_t batch_requests = 0;
  std::uint64_t batch_rows = 0;
  // Unique in the process, and equal for requests of one launch; of several, the last. 0: none.
  std::uint64_t launch = 0;
  std::uint64_t connection = 0;  // as MatmulCall has it
  TraceOrigin trace;
  std::uint64_t products = 1;  // of that problem
  bool are_groups = false;     // M is all rows, which the products share out
  double flops = 0;            // of this request
  double batch_flops = 0;      // of the launch it was part of
  std::uint64_t payload_bytes_in = 0;
  std::uint64_t payload_bytes_out = 0;
  std::uint64_t shared_bytes_in = 0;
  std::uint64_t shared_bytes_out = 0;
  // Between host and device, by the launches that served it, all of their requests together.
  std::uint64_t copied_bytes_in = 0;
  std::uint64_t copied_bytes_out = 0;
  // In admission: of its resident operands, to the device; and of others, off it, for want of room.
  std::uint64_t landed_bytes = 0;
  std::uint64_t evicted_bytes = 0;
  PredictedTimes predicted;           // of this request alone
  std::optional<double> error_bound;  // as ErrorBound() has it
  std::optional<double> verification_residual;
  std::optional<double> joules;  // of its share of the launches that served it
};

// The types of a problem's matrices: "f32" where all are of one and nothing is scaled, else those
// of A, B and D with how each operand is scaled: "bf16,int4(f16/1x32+zp)->bf16".
std::string TypesOf(const Problem& problem);

// "64x4096x1024": M, N and K; "50*16x16x16" of 50 products; "64/8x4096x1024" of 64 rows in 8
// groups.
std::string ShapeOf(const Receipt& receipt);

// As the caller sent it; empty: it sent none.
std::string TraceparentOf(const Receipt& receipt);

// A receipt's time from arrival to finish, each nanosecond charged to one span.
struct Attribution {
  std::vector<TimeNs> exposed;  // by index in Receipt::spans
  TimeNs total = 0;
  TimeNs unattributed = 0;
};

// Charges each moment to the running span that is first in the order compute,
// copy-in, copy-out, verify, decode, admission, encode, receive, queue (ties: the first in
// `spans`): work hidden behind useful work costs nothing. Parts of spans outside [arrival, finish]
// count for nothing, so sum(exposed) + unattributed == total always.
Attribution Attribute(const Receipt& receipt);

// FLOPs of the launch per nanosecond of its compute stage, which is GFLOP/s; 0 if
// there was none.
double AchievedGflops(const Receipt& receipt);

}  // namespace gemmd
