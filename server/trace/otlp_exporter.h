// Sends timelines to a collector, and never makes anybody wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "server/trace/timeline.h"

namespace gemmd {

// The outcome of sending a batch.
struct SendOutcome {
  enum class Kind : std::uint8_t {
    kTaken,     // by the collector, but for `rejected_spans`
    kRefused,   // it would be again
    kTryAgain,  // nobody answered in time, or the collector cannot take it now
  };
  Kind kind = Kind::kTryAgain;
  std::uint64_t rejected_spans = 0;
};

// Sends spans to one collector. Send() is called by one thread, Interrupt() by any.
class SpanSender {
 public:
  virtual ~SpanSender() = default;
  // Waits no longer than the timeout.
  virtual SendOutcome Send(const std::string& body, std::chrono::milliseconds timeout) = 0;
  // Send() ends soon, and those that come ended before they began.
  virtual void Interrupt() = 0;
};

// Thread-safe.
class OtlpExporter {
 public:
  struct Options {
    std::size_t queue_bytes = std::size_t{4} << 20;
    std::size_t batch_requests = 256;
    std::chrono::milliseconds period{1000};  // what is few waits so long for company
    std::chrono::milliseconds timeout{10000};
    std::chrono::milliseconds first_wait{1000};  // before a batch is tried again; then twice that
    std::chrono::milliseconds longest_wait{30000};
    int attempts = 5;
    std::chrono::milliseconds last_moment{1000};  // to send what is left at the end
  };
  struct Counts {
    std::uint64_t sent_spans = 0;
    std::uint64_t queue_full = 0;   // spans that found no room
    std::uint64_t refused = 0;      // that the collector would not have
    std::uint64_t unreachable = 0;  // given up, because nobody took them
    std::size_t queued_bytes = 0;
  };
  // A batch as the collector reads it.
  using Encode = std::function<std::string(const std::vector<Timeline>&)>;

  OtlpExporter(const Options& options, std::unique_ptr<SpanSender> sender, Encode encode);
  ~OtlpExporter();
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  // Queues the bytes of a timeline (see TimelineBytes) that has `spans` spans. It is dropped, and
  // counted, if the queue has no room.
  void Push(absl::string_view timeline, std::size_t spans);

  Counts counts() const;

 private:
  struct Batch {
    std::vector<Timeline> timelines;
    std::uint64_t spans = 0;
  };

  void Run();
  // Waits for a batch. False: none, and none will come.
  bool Take(Batch* batch);
  void Deliver(const Batch& batch);
  // False: the exporter ends.
  bool Sleep(std::chrono::milliseconds time);
  bool is_ending() const;

  const Options options_;
  const std::unique_ptr<SpanSender> sender_;
  const Encode encode_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> queue_ ABSL_GUARDED_BY(mutex_);
  std::size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<std::uint64_t> sent_spans_{0};
  std::atomic<std::uint64_t> queue_full_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> unreachable_{0};

  std::thread thread_;  // last: it uses all else
};

}  // namespace gemmd
