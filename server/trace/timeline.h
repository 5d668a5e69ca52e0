// One request's end as it is remembered: its receipt, and how it ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/observe/receipt.h"
#include "server/trace/trace_ring.h"

namespace gemmd {

struct Timeline {
  absl::StatusCode code = absl::StatusCode::kOk;
  // Predictions are left out. A request that failed has for its finish the end of its last stage.
  Receipt receipt;
  // False: the name in the receipt is only its beginning.
  bool tenant_is_whole = true;
  std::uint32_t spans_left_out = 0;  // the last ones
};

// A Timeline's bytes, in memory of their own.
class TimelineBytes {
 public:
  // Texts are cut to 128 characters, a tenant's name and tracestate to 512.
  TimelineBytes(absl::StatusCode code, const Receipt& receipt);

  absl::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, TraceRing::kMostRecordBytes> bytes_;
  std::size_t size_ = 0;
};

// Returns the offset from the server's clock to the system's, in ns; it holds for now, because the
// system's clock may be set. `now`: the server's.
std::int64_t UnixMinusMonotonic(TimeNs now);

// Nothing: these are not a Timeline's bytes.
std::optional<Timeline> ReadTimeline(absl::string_view bytes);

}  // namespace gemmd
