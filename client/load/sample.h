// The record of one request, exact and kept for good: every figure of a report is computed from
// these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "client/load/clock.h"

namespace gemmd::load {

// The stages of a request's time, in their order. Each is the part that the stage alone accounts
// for, so that they sum to the round trip.
enum StageIndex : std::size_t {
  kClientQueue,  // for a place on the connection, or for a payload that another request uses
  kClientEncode,
  kWire,  // both networks' stacks, gRPC, and protobuf on both ends
  kServerDecode,
  kAdmission,
  kReceive,
  kQueue,
  kCopyIn,
  kCompute,
  kCopyOut,
  kServerEncode,
  kServerOther,
  kClientDecode,
  kStages
};

inline constexpr std::array<absl::string_view, kStages> kStageNames = {
    "client queue",  "client encode", "network and wire", "server decode", "admission",
    "receive",       "queue",         "copy in",          "compute",       "copy out",
    "server encode", "server other",  "client decode"};

using StageTimes = std::array<float, kStages>;  // microseconds

// Stands for the status code of a request that was due, but that the limit of requests in flight
// held back until the run was over. It completes at the end of the run, which is a lower bound.
inline constexpr std::uint8_t kNotSent = 255;

struct Sample {
  TimeNs intended_ns = 0;  // all three since the run's start
  TimeNs sent_ns = 0;
  TimeNs completed_ns = 0;
  StageTimes stage_us{};
  std::uint32_t batch_requests = 0;  // of the launch that served it; 0 where unknown
  std::uint16_t entry = 0;           // of the workload
  std::uint8_t code = 0;             // absl::StatusCode or kNotSent

  bool ok() const { return code == 0; }
  // Counted from the intended time on: what a user who came at that time would have waited.
  TimeNs latency_ns() const { return completed_ns - intended_ns; }
};

}  // namespace gemmd::load
