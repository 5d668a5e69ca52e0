#include "server/rpc/services/timelines.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "server/rpc/codec/encode.h"

namespace gemmd {
namespace {

constexpr std::size_t kMostRequests = 10000;
constexpr std::size_t kMostBytes = std::size_t{32} << 20;

TimeNs OldestFinish(std::uint64_t last_us, TimeNs now) {
  constexpr auto kLongest = static_cast<std::uint64_t>(std::numeric_limits<TimeNs>::max()) / 2;
  if (last_us == 0 || last_us > kLongest / kMicrosecond) return std::numeric_limits<TimeNs>::min();
  return now - static_cast<TimeNs>(last_us * kMicrosecond);
}

// Nobody can tell whose a request is whose tenant's name is cut.
bool IsOwn(const Timeline& timeline, const Identity& caller) {
  return timeline.tenant_is_whole && timeline.receipt.tenant == caller.tenant.key();
}

v1::Timeline Encode(const Timeline& timeline, std::int64_t unix_minus_mono) {
  const Receipt& receipt = timeline.receipt;
  v1::Timeline wire;
  wire.set_arrival_unix_ns(static_cast<std::uint64_t>(receipt.arrival + unix_minus_mono));
  *wire.mutable_receipt() = EncodeReceipt(receipt);
  wire.mutable_receipt()->clear_predicted();
  wire.set_code(static_cast<std::uint32_t>(timeline.code));
  wire.set_tenant(receipt.tenant);
  wire.set_launch(receipt.launch);
  wire.set_connection(receipt.connection);
  if (const auto& context = receipt.trace.context; context.has_value()) {
    wire.set_trace_id(ToHex(context->trace_id.data(), context->trace_id.size()));
    wire.set_parent_span_id(ToHex(context->parent_id.data(), context->parent_id.size()));
  }
  wire.set_stages_left_out(timeline.spans_left_out);
  return wire;
}

}  // namespace

absl::StatusOr<v1::TracesResponse> CollectTimelines(const Tracer& tracer,
                                                    const v1::TracesRequest& request,
                                                    const Identity& caller, TimeNs now) {
  if (tracer.ring().bytes() == 0) {
    return absl::FailedPreconditionError(
        "the server remembers no requests: it was started with --observe.trace-bytes=0");
  }
  const std::size_t most = request.max_requests() == 0
                               ? kMostRequests
                               : std::min<std::size_t>(request.max_requests(), kMostRequests);
  const TimeNs oldest = OldestFinish(request.last_us(), now);
  const bool sees_all = caller.roles.HasAnyOf({Role::kObserver, Role::kOperator});
  v1::TracesResponse response;
  std::deque<Timeline> newest;
  std::uint64_t left_out = 0;
  tracer.Read([&](const Timeline& timeline) {
    if (timeline.receipt.finish < oldest || !(sees_all || IsOwn(timeline, caller))) return;
    newest.push_back(timeline);
    if (newest.size() <= most) return;
    newest.pop_front();
    ++left_out;
  });
  // Records are written in another order than requests end, where several end at once.
  std::stable_sort(newest.begin(), newest.end(), [](const Timeline& x, const Timeline& y) {
    return x.receipt.finish < y.receipt.finish;
  });
  const std::int64_t unix_minus_mono = UnixMinusMonotonic(now);
  std::vector<v1::Timeline> encoded;  // the newest first
  std::size_t bytes = 0;
  for (auto each = newest.rbegin(); each != newest.rend(); ++each) {
    v1::Timeline wire = Encode(*each, unix_minus_mono);
    bytes += wire.ByteSizeLong();
    if (bytes > kMostBytes) break;
    encoded.push_back(std::move(wire));
  }
  response.set_left_out(left_out + newest.size() - encoded.size());
  for (auto each = encoded.rbegin(); each != encoded.rend(); ++each) {
    *response.add_timelines() = std::move(*each);
  }
  response.set_ring_bytes(tracer.ring().bytes());
  response.set_recorded_requests(tracer.ring().written());
  response.set_dropped_requests(tracer.ring().dropped());
  return response;
}

}  // namespace gemmd
