// Counters over all requests since the server started. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/sync/mutex.h"
#include "server/observe/duration_histogram.h"
#include "server/observe/receipt.h"
#include "server/observe/receipt_sink.h"
#include "server/observe/refusal.h"
#include "server/observe/slow_log.h"
#include "server/observe/top_table.h"

namespace gemmd {

class Statistics {
 public:
  // `slow`: gets requests that took long; `sink`: all that were let in; null: nobody does. They
  // outlive this.
  explicit Statistics(SlowLog* slow = nullptr, ReceiptSink* sink = nullptr)
      : slow_(slow), sink_(sink) {}

  // Entries of their own, the rest together.
  static constexpr std::size_t kTenants = 20;
  static constexpr std::size_t kKernels = 64;
  static constexpr std::size_t kProducts = 20;

  struct StageTotals {
    std::uint64_t count = 0;
    TimeNs sum = 0;
    TimeNs max = 0;
    DurationHistogram durations;
  };

  // Totals over requests that finished OK, by what served them, or by what they asked for.
  struct KernelTotals {
    std::uint64_t requests = 0;
    double flops = 0;
    double compute_seconds = 0;  // a launch's time is shared by FLOPs
    double joules = 0;           // of those whose receipts have them

    KernelTotals& operator+=(const KernelTotals& other);
  };

  // Totals over requests that were let in, by tenant.
  struct TenantTotals {
    std::uint64_t ok = 0;
    std::uint64_t failed = 0;
    std::uint64_t payload_bytes = 0;  // both ways, of those that finished OK
    double flops = 0;                 // of those that finished OK
    double compute_seconds = 0;       // of those that finished OK
    double joules = 0;                // of those whose receipts have them

    TenantTotals& operator+=(const TenantTotals& other);
  };

  // The request that fell into a bucket last.
  struct Example {
    std::uint64_t request_id = 0;
    TimeNs duration = 0;
  };

  struct Snapshot {
    std::uint64_t received = 0;
    std::map<std::string, std::uint64_t> finished;        // by status code name
    std::array<std::uint64_t, kRefusalCauses> refused{};  // of those, not let in
    std::uint64_t in_flight = 0;                          // received and not finished
    std::uint64_t payload_bytes_in = 0;                   // of requests that finished OK
    std::uint64_t payload_bytes_out = 0;
    std::uint64_t shared_bytes_in = 0;
    std::uint64_t shared_bytes_out = 0;
    double flops = 0;
    std::array<StageTotals, kStageCount> stages{};  // of requests that finished OK
    DurationHistogram durations;                    // of OK requests, from header to receipt
    std::array<std::optional<Example>, kDurationBounds.size() + 1> examples{};  // of durations
  };

  struct ByName {
    std::map<std::string, KernelTotals> kernels;
    KernelTotals other_kernels;
    // By shape and types, with a space between them: "64x4096x1024 f32".
    std::map<std::string, KernelTotals> products;
    KernelTotals other_products;
    std::map<std::string, TenantTotals> tenants;
    TenantTotals other_tenants;
  };

  void RecordReceived();
  void RecordRefused(const absl::Status& why);
  void RecordRefused(absl::StatusCode code);
  // OK, or why an admitted request failed; of the receipt only the tenant counts without OK.
  void RecordFinished(absl::StatusCode code, const Receipt& receipt);

  Snapshot Read() const;
  ByName ReadByName() const;

 private:
  static constexpr TimeNs kTopPeriod = 60'000'000'000;

  void CountFinished(absl::StatusCode code) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountRefused(absl::StatusCode code, RefusalCause cause);
  void RecordByName(bool is_ok, const Receipt& receipt);

  SlowLog* const slow_;
  ReceiptSink* const sink_;
  mutable AdaptiveMutex mutex_;
  Snapshot totals_ ABSL_GUARDED_BY(mutex_);
  // These have a lock of their own, because looking names up takes longer than counting.
  mutable AdaptiveMutex names_mutex_;
  TopTable<KernelTotals> kernels_ ABSL_GUARDED_BY(names_mutex_){kKernels, kTopPeriod};
  TopTable<KernelTotals> products_ ABSL_GUARDED_BY(names_mutex_){kProducts, kTopPeriod};
  TopTable<TenantTotals> tenants_ ABSL_GUARDED_BY(names_mutex_){kTenants, kTopPeriod};
  TimeNs last_finish_ ABSL_GUARDED_BY(names_mutex_) = 0;
};

}  // namespace gemmd
