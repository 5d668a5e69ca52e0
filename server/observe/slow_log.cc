#include "server/observe/slow_log.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/time/units.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

// The longest name of a tenant that is kept: a certificate's may have thousands of bytes.
constexpr std::size_t kMostTenant = 128;

std::array<double, kStageCount> ExposedUs(const Receipt& receipt, const Attribution& attribution) {
  std::array<double, kStageCount> exposed{};
  for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
    exposed[static_cast<std::size_t>(receipt.spans[i].stage)] +=
        static_cast<double>(attribution.exposed[i]) / kMicrosecond;
  }
  return exposed;
}

}  // namespace

void SlowLog::SetOptions(const Options& options) {
  threshold_ = options.threshold;
  const MutexLock lock(mutex_);
  lines_per_second_ = options.lines_per_second;
}

void SlowLog::Record(const Receipt& finished) {
  Receipt receipt = finished;
  if (receipt.tenant.size() > kMostTenant)
    receipt.tenant.replace(kMostTenant, std::string::npos, "...");
  std::optional<std::uint64_t> left_out;
  {
    constexpr TimeNs kBurstSeconds = 10;
    const MutexLock lock(mutex_);
    recent_.push_front(receipt);
    if (recent_.size() > kRemembered) recent_.pop_back();
    // Several threads record, each its own moment.
    const TimeNs now = receipt.finish;
    const TimeNs paid =
        std::max(paid_until_, now - kBurstSeconds * kSecond) + kSecond / lines_per_second_;
    if (paid > now) {
      ++left_out_;
    } else {
      paid_until_ = paid;
      left_out = std::exchange(left_out_, 0);
    }
  }
  if (left_out.has_value()) Write(receipt, *left_out);
}

void SlowLog::Write(const Receipt& receipt, std::uint64_t left_out) {
  const Attribution attribution = Attribute(receipt);
  const std::array<double, kStageCount> exposed = ExposedUs(receipt, attribution);
  const auto us = [&exposed](Stage stage) { return exposed[static_cast<std::size_t>(stage)]; };
  Log(Severity::kWarning, "slow_request",
      {{"request_id", receipt.request_id},
       {"tenant", receipt.tenant},
       {"peer", receipt.endpoint},
       {"traceparent", TraceparentOf(receipt)},
       {"m", receipt.m},
       {"n", receipt.n},
       {"k", receipt.k},
       {"products", receipt.products},
       {"types", receipt.types},
       {"device", receipt.device},
       {"kernel", receipt.kernel},
       {"plan", receipt.plan},
       {"numerics", receipt.numerics_id},
       {"flops", receipt.flops},
       {"batch_requests", receipt.batch_requests},
       {"batch_rows", receipt.batch_rows},
       {"payload_bytes_in", receipt.payload_bytes_in},
       {"payload_bytes_out", receipt.payload_bytes_out},
       {"total_us", static_cast<double>(attribution.total) / kMicrosecond},
       {"decode_us", us(Stage::kDecode)},
       {"receive_us", us(Stage::kReceive)},
       {"admission_us", us(Stage::kAdmission)},
       {"queue_us", us(Stage::kQueue)},
       {"copy_in_us", us(Stage::kCopyIn)},
       {"compute_us", us(Stage::kCompute)},
       {"copy_out_us", us(Stage::kCopyOut)},
       {"verify_us", us(Stage::kVerify)},
       {"encode_us", us(Stage::kEncode)},
       {"unattributed_us", static_cast<double>(attribution.unattributed) / kMicrosecond},
       {"predicted_device_us", receipt.predicted.device_us},
       {"left_out", left_out}});
}

std::vector<Receipt> SlowLog::recent() const {
  const MutexLock lock(mutex_);
  return {recent_.begin(), recent_.end()};
}

}  // namespace gemmd
