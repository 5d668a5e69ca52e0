#include "server/trace/otlp_exporter.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace gemmd {
namespace {

// The memory of a record besides its bytes: the string, and what the allocator adds.
constexpr std::size_t kRecordBytes = 64;

}  // namespace

OtlpExporter::OtlpExporter(const Options& options, std::unique_ptr<SpanSender> sender,
                           Encode encode)
    : options_(options), sender_(std::move(sender)), encode_(std::move(encode)) {
  thread_ = std::thread([this] { Run(); });
}

OtlpExporter::~OtlpExporter() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
    const auto end = std::chrono::steady_clock::now() + options_.last_moment;
    while (!has_ended_ && std::chrono::steady_clock::now() < end) changed_.wait_until(mutex_, end);
    // To make batches of all that waits takes seconds.
    queue_.clear();
  }
  sender_->Interrupt();
  thread_.join();
}

void OtlpExporter::Push(absl::string_view timeline, std::size_t spans) {
  std::string record(timeline);
  const std::size_t bytes = record.size() + kRecordBytes;
  {
    const MutexLock lock(mutex_);
    if (queued_bytes_ + bytes <= options_.queue_bytes) {
      queued_bytes_ += bytes;
      queue_.push_back(std::move(record));
      // The thread looks each period anyway; nobody is woken for one request.
      if (queue_.size() == options_.batch_requests) changed_.notify_all();
      return;
    }
  }
  queue_full_ += spans;
}

OtlpExporter::Counts OtlpExporter::counts() const {
  Counts counts;
  counts.sent_spans = sent_spans_;
  counts.queue_full = queue_full_;
  counts.refused = refused_;
  counts.unreachable = unreachable_;
  const MutexLock lock(mutex_);
  counts.queued_bytes = queued_bytes_;
  return counts;
}

bool OtlpExporter::is_ending() const {
  const MutexLock lock(mutex_);
  return is_ending_;
}

void OtlpExporter::Run() {
  Batch batch;
  while (Take(&batch)) Deliver(batch);
  const MutexLock lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

bool OtlpExporter::Take(Batch* batch) {
  std::vector<std::string> records;
  {
    const MutexLock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + options_.period;
    while (!is_ending_ && queue_.size() < options_.batch_requests &&
           (queue_.empty() || std::chrono::steady_clock::now() < end)) {
      queue_.empty() ? changed_.wait_for(mutex_, options_.period)
                     : changed_.wait_until(mutex_, end);
    }
    if (queue_.empty()) return false;
    const std::size_t count = std::min(queue_.size(), options_.batch_requests);
    const auto last = queue_.begin() + static_cast<std::ptrdiff_t>(count);
    records.assign(std::make_move_iterator(queue_.begin()), std::make_move_iterator(last));
    queue_.erase(queue_.begin(), last);
    for (const std::string& record : records) queued_bytes_ -= record.size() + kRecordBytes;
  }
  *batch = {};
  for (const std::string& record : records) {
    std::optional<Timeline> timeline = ReadTimeline(record);
    if (!timeline.has_value()) continue;  // never: TimelineBytes wrote it
    batch->spans += 1 + timeline->receipt.spans.size();
    batch->timelines.push_back(*std::move(timeline));
  }
  return true;
}

void OtlpExporter::Deliver(const Batch& batch) {
  const std::string body = encode_(batch.timelines);
  std::chrono::milliseconds wait = options_.first_wait;
  for (int attempt = 1;; ++attempt) {
    const bool is_last = is_ending();
    const SendOutcome outcome =
        sender_->Send(body, is_last ? options_.last_moment : options_.timeout);
    switch (outcome.kind) {
      case SendOutcome::Kind::kTaken: {
        const std::uint64_t rejected = std::min(outcome.rejected_spans, batch.spans);
        refused_ += rejected;
        sent_spans_ += batch.spans - rejected;
        return;
      }
      case SendOutcome::Kind::kRefused:
        refused_ += batch.spans;
        return;
      case SendOutcome::Kind::kTryAgain:
        break;
    }
    if (is_last || attempt >= options_.attempts || !Sleep(wait)) {
      unreachable_ += batch.spans;
      return;
    }
    wait = std::min(2 * wait, options_.longest_wait);
  }
}

bool OtlpExporter::Sleep(std::chrono::milliseconds time) {
  const MutexLock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + time;
  while (!is_ending_ && std::chrono::steady_clock::now() < end) changed_.wait_until(mutex_, end);
  return !is_ending_;
}

}  // namespace gemmd
