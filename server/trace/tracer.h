// Remembers requests, and sends samples of them to a collector.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "server/observe/receipt_sink.h"
#include "server/trace/otlp_exporter.h"
#include "server/trace/timeline.h"
#include "server/trace/trace_ring.h"

namespace gemmd {

// Thread-safe.
class Tracer final : public ReceiptSink {
 public:
  struct Options {
    std::size_t ring_bytes = std::size_t{8} << 20;
    // Requests in a million that are sampled, of those whose caller does not say that they are.
    std::uint32_t sampled_per_million = 0;
    std::uint64_t seed = 0;
  };

  // `exporter` may be null: nothing is sent.
  Tracer(const Options& options, std::unique_ptr<OtlpExporter> exporter)
      : options_(options), ring_(options.ring_bytes), exporter_(std::move(exporter)) {}

  void Take(absl::StatusCode code, const Receipt& receipt) override;

  // Returns whether the request is one that a collector gets.
  bool IsSampled(const Receipt& receipt) const;

  // Visits the timelines in the ring, oldest first.
  void Read(const std::function<void(const Timeline&)>& visit) const;

  const TraceRing& ring() const { return ring_; }
  const OtlpExporter* exporter() const { return exporter_.get(); }

 private:
  const Options options_;
  TraceRing ring_;
  const std::unique_ptr<OtlpExporter> exporter_;
};

}  // namespace gemmd
