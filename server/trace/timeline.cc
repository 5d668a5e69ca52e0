#include "server/trace/timeline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace gemmd {
namespace {

constexpr std::size_t kMostName = 512;
constexpr std::size_t kMostText = 128;
constexpr std::size_t kMostVarint = 10;

// Returns the time at which the request ended, which a failed one's receipt does not have.
TimeNs FinishOf(const Receipt& receipt) {
  if (receipt.finish >= receipt.arrival) return receipt.finish;
  TimeNs finish = receipt.arrival;
  for (const StageSpan& span : receipt.spans) finish = std::max(finish, span.end);
  return finish;
}

// Small numbers of either sign as small ones.
std::uint64_t ZigZag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1U) ^
         (value < 0 ? ~std::uint64_t{0} : std::uint64_t{0});
}

std::int64_t UnZigZag(std::uint64_t value) {
  const std::uint64_t sign = (value & 1U) != 0 ? ~std::uint64_t{0} : 0;
  return static_cast<std::int64_t>((value >> 1U) ^ sign);
}

// All that is before the spans fits, as TimelineBytes() cuts texts.
class Writer {
 public:
  Writer(char* begin, char* end) : begin_(begin), at_(begin), end_(end) {}

  void Number(std::uint64_t value) {
    while (value >= 0x80U) {
      *at_++ = static_cast<char>(value | 0x80U);
      value >>= 7U;
    }
    *at_++ = static_cast<char>(value);
  }
  void Signed(std::int64_t value) { Number(ZigZag(value)); }
  void Real(double value) { Bytes(&value, sizeof value); }
  void Bytes(const void* bytes, std::size_t size) {
    std::memcpy(at_, bytes, size);
    at_ += size;
  }
  void Text(absl::string_view text, std::size_t most) {
    text = text.substr(0, most);
    Number(text.size());
    Bytes(text.data(), text.size());
  }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  std::size_t size() const { return static_cast<std::size_t>(at_ - begin_); }

 private:
  char* const begin_;
  char* at_;
  char* const end_;
};

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  std::uint64_t Number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 7 * kMostVarint; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    is_good_ = false;
    return 0;
  }
  std::int64_t Signed() { return UnZigZag(Number()); }
  double Real() {
    double value = 0;
    Bytes(&value, sizeof value);
    return value;
  }
  void Bytes(void* bytes, std::size_t size) {
    if (bytes_.size() < size) {
      is_good_ = false;
      return;
    }
    std::memcpy(bytes, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }
  std::string Text() {
    const std::uint64_t size = Number();
    if (bytes_.size() < size) {
      is_good_ = false;
      return "";
    }
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  bool is_good() const { return is_good_; }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  absl::string_view bytes_;
  bool is_good_ = true;
};

constexpr std::uint64_t kHasTrace = 1;
constexpr std::uint64_t kIsFast = 2;
constexpr std::uint64_t kTenantIsCut = 4;
constexpr std::uint64_t kIsVerified = 8;
constexpr std::uint64_t kHasJoules = 16;

}  // namespace

TimelineBytes::TimelineBytes(absl::StatusCode code, const Receipt& receipt) {
  Writer out(bytes_.data(), bytes_.data() + bytes_.size());
  const TraceOrigin& trace = receipt.trace;
  const std::optional<double>& residual = receipt.verification_residual;
  out.Number(static_cast<std::uint64_t>(code));
  out.Number((trace.context.has_value() ? kHasTrace : 0U) |
             (receipt.determinism == Determinism::kFast ? kIsFast : 0U) |
             (receipt.tenant.size() > kMostName ? kTenantIsCut : 0U) |
             (residual.has_value() ? kIsVerified : 0U) |
             (receipt.joules.has_value() ? kHasJoules : 0U));
  out.Number(receipt.request_id);
  out.Signed(receipt.arrival);
  out.Signed(FinishOf(receipt) - receipt.arrival);
  out.Number(receipt.launch);
  out.Number(receipt.connection);
  out.Number(receipt.batch_requests);
  out.Number(receipt.batch_rows);
  out.Real(receipt.flops);
  out.Real(receipt.batch_flops);
  out.Number(receipt.payload_bytes_in);
  out.Number(receipt.payload_bytes_out);
  out.Number(receipt.shared_bytes_in);
  out.Number(receipt.shared_bytes_out);
  out.Number(receipt.copied_bytes_in);
  out.Number(receipt.copied_bytes_out);
  out.Number(receipt.landed_bytes);
  out.Number(receipt.evicted_bytes);
  if (residual.has_value()) out.Real(*residual);
  if (receipt.joules.has_value()) out.Real(*receipt.joules);
  if (trace.context.has_value()) {
    out.Bytes(trace.context->trace_id.data(), trace.context->trace_id.size());
    out.Bytes(trace.context->parent_id.data(), trace.context->parent_id.size());
    out.Number(trace.context->flags);
    out.Text(trace.state, kMostName);
  }
  out.Text(receipt.tenant, kMostName);
  out.Text(receipt.device, kMostText);
  out.Text(receipt.kernel, kMostText);
  out.Text(receipt.plan, kMostText);
  out.Text(receipt.numerics_id, kMostText);

  // A span takes one byte and two numbers; as many as surely fit.
  constexpr std::size_t kMostSpan = 1 + 2 * kMostVarint;
  const std::size_t most = (out.left() - 2 * kMostVarint) / kMostSpan;
  const std::size_t spans = std::min(receipt.spans.size(), most);
  out.Number(receipt.spans.size() - spans);
  out.Number(spans);
  TimeNs before = receipt.arrival;
  for (std::size_t i = 0; i < spans; ++i) {
    const StageSpan& span = receipt.spans[i];
    out.Number(static_cast<std::uint64_t>(span.stage));
    out.Signed(span.start - before);
    out.Signed(span.end - span.start);
    before = span.end;
  }
  size_ = out.size();
}

std::int64_t UnixMinusMonotonic(TimeNs now) {
  const auto unix = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(unix).count() - now;
}

std::optional<Timeline> ReadTimeline(absl::string_view bytes) {
  Reader in(bytes);
  Timeline timeline;
  Receipt& receipt = timeline.receipt;
  timeline.code = static_cast<absl::StatusCode>(in.Number());
  const std::uint64_t flags = in.Number();
  timeline.tenant_is_whole = (flags & kTenantIsCut) == 0;
  receipt.determinism = (flags & kIsFast) != 0 ? Determinism::kFast : Determinism::kBatchInvariant;
  receipt.request_id = in.Number();
  receipt.arrival = in.Signed();
  receipt.finish = receipt.arrival + in.Signed();
  receipt.launch = in.Number();
  receipt.connection = in.Number();
  receipt.batch_requests = in.Number();
  receipt.batch_rows = in.Number();
  receipt.flops = in.Real();
  receipt.batch_flops = in.Real();
  receipt.payload_bytes_in = in.Number();
  receipt.payload_bytes_out = in.Number();
  receipt.shared_bytes_in = in.Number();
  receipt.shared_bytes_out = in.Number();
  receipt.copied_bytes_in = in.Number();
  receipt.copied_bytes_out = in.Number();
  receipt.landed_bytes = in.Number();
  receipt.evicted_bytes = in.Number();
  if ((flags & kIsVerified) != 0) receipt.verification_residual = in.Real();
  if ((flags & kHasJoules) != 0) receipt.joules = in.Real();
  if ((flags & kHasTrace) != 0) {
    TraceContext& context = receipt.trace.context.emplace();
    in.Bytes(context.trace_id.data(), context.trace_id.size());
    in.Bytes(context.parent_id.data(), context.parent_id.size());
    context.flags = static_cast<std::uint8_t>(in.Number());
    receipt.trace.state = in.Text();
  }
  receipt.tenant = in.Text();
  receipt.device = in.Text();
  receipt.kernel = in.Text();
  receipt.plan = in.Text();
  receipt.numerics_id = in.Text();
  timeline.spans_left_out = static_cast<std::uint32_t>(in.Number());
  const std::uint64_t spans = in.Number();
  TimeNs before = receipt.arrival;
  for (std::uint64_t i = 0; i < spans && in.is_good(); ++i) {
    StageSpan span;
    span.stage = static_cast<Stage>(in.Number());
    span.start = before + in.Signed();
    span.end = span.start + in.Signed();
    before = span.end;
    receipt.spans.push_back(span);
  }
  if (!in.is_good() || !in.is_at_end()) return std::nullopt;
  return timeline;
}

}  // namespace gemmd
