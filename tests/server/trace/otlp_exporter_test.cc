#include "server/trace/otlp_exporter.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/trace/receipts.h"

namespace gemmd {
namespace {

using testing::SomeReceipt;
using Kind = SendOutcome::Kind;
using std::chrono::milliseconds;

constexpr std::size_t kSpans = 1 + kStageCount;  // of SomeReceipt()

// Answers as it is told, each Send() in turn and the last for ever; a gate holds them back.
struct Script {
  std::vector<SendOutcome> outcomes{{Kind::kTaken, 0}};
  std::atomic<bool> is_stalled{false};
  std::atomic<bool> is_interrupted{false};
  std::atomic<int> calls{0};
  Mutex mutex;
  std::vector<std::string> bodies ABSL_GUARDED_BY(mutex);
};

class ScriptedSender final : public SpanSender {
 public:
  explicit ScriptedSender(Script* script) : script_(script) {}

  SendOutcome Send(const std::string& body, milliseconds /*timeout*/) override {
    const auto call = static_cast<std::size_t>(script_->calls++);
    {
      const MutexLock lock(script_->mutex);
      script_->bodies.push_back(body);
    }
    while (script_->is_stalled && !script_->is_interrupted) std::this_thread::yield();
    if (script_->is_interrupted) return {};
    return script_->outcomes[std::min(call, script_->outcomes.size() - 1)];
  }
  void Interrupt() override { script_->is_interrupted = true; }

 private:
  Script* const script_;
};

OtlpExporter::Options Quick() {
  OtlpExporter::Options options;
  options.batch_requests = 4;
  options.period = options.first_wait = options.longest_wait = options.last_moment =
      milliseconds(1);
  options.attempts = 3;
  return options;
}

std::string Ids(const std::vector<Timeline>& timelines) {
  std::string ids;
  for (const Timeline& each : timelines) absl::StrAppend(&ids, each.receipt.request_id, " ");
  return ids;
}

void Push(OtlpExporter* exporter, std::uint64_t id) {
  exporter->Push(TimelineBytes(absl::StatusCode::kOk, SomeReceipt(id)).view(), kSpans);
}

void Await(const std::atomic<int>& calls, int count) {
  while (calls < count) std::this_thread::yield();
}

std::uint64_t ToldOf(const OtlpExporter::Counts& counts) {
  return counts.sent_spans + counts.queue_full + counts.refused + counts.unreachable;
}

OtlpExporter::Counts AwaitSpans(const OtlpExporter& exporter, std::uint64_t spans) {
  while (ToldOf(exporter.counts()) < spans) std::this_thread::yield();
  return exporter.counts();
}

TEST(OtlpExporterTest, SendsAllInTheirOrderInBatches) {
  Script script;
  {
    OtlpExporter exporter(Quick(), std::make_unique<ScriptedSender>(&script), Ids);
    for (std::uint64_t id = 1; id <= 10; ++id) Push(&exporter, id);
    EXPECT_EQ(AwaitSpans(exporter, 10 * kSpans).sent_spans, 10 * kSpans);
    EXPECT_EQ(exporter.counts().queued_bytes, 0U);
  }
  std::string all;
  const MutexLock lock(script.mutex);
  for (const std::string& body : script.bodies) {
    all += body;
    EXPECT_LE(body.size(), std::string("1 2 3 10 ").size());
  }
  EXPECT_EQ(all, "1 2 3 4 5 6 7 8 9 10 ");
}

TEST(OtlpExporterTest, ACollectorThatStallsCostsTheQueueAndNoMore) {
  Script script;
  script.is_stalled = true;
  OtlpExporter::Options options = Quick();
  options.queue_bytes = 4000;
  OtlpExporter exporter(options, std::make_unique<ScriptedSender>(&script), Ids);
  Push(&exporter, 0);
  Await(script.calls, 1);
  // Nobody waits, however many come.
  constexpr std::uint64_t kMany = 5000;
  for (std::uint64_t id = 1; id <= kMany; ++id) Push(&exporter, id);
  const OtlpExporter::Counts counts = exporter.counts();
  EXPECT_LE(counts.queued_bytes, options.queue_bytes);
  EXPECT_GT(counts.queued_bytes, options.queue_bytes / 2);
  EXPECT_GT(counts.queue_full, (kMany - 20) * kSpans);
  EXPECT_EQ(counts.sent_spans, 0U);
  script.is_stalled = false;
  EXPECT_EQ(AwaitSpans(exporter, (kMany + 1) * kSpans).queue_full, counts.queue_full);
}

TEST(OtlpExporterTest, TriesAgainAFewTimes) {
  Script script;
  script.outcomes = {
      {Kind::kTryAgain, 0}, {Kind::kTryAgain, 0}, {Kind::kTaken, 3}, {Kind::kTryAgain, 0}};
  OtlpExporter exporter(Quick(), std::make_unique<ScriptedSender>(&script), Ids);
  Push(&exporter, 1);
  OtlpExporter::Counts counts = AwaitSpans(exporter, kSpans);
  EXPECT_EQ(script.calls, 3);
  EXPECT_EQ(counts.sent_spans, kSpans - 3);
  EXPECT_EQ(counts.refused, 3U);
  Push(&exporter, 2);
  counts = AwaitSpans(exporter, 2 * kSpans);
  EXPECT_EQ(script.calls, 6);
  EXPECT_EQ(counts.unreachable, kSpans);
}

TEST(OtlpExporterTest, DoesNotRepeatWhatIsRefused) {
  Script script;
  script.outcomes = {{Kind::kRefused, 0}, {Kind::kTaken, 1'000'000}};
  OtlpExporter exporter(Quick(), std::make_unique<ScriptedSender>(&script), Ids);
  Push(&exporter, 1);
  EXPECT_EQ(AwaitSpans(exporter, kSpans).refused, kSpans);
  EXPECT_EQ(script.calls, 1);
  // A collector may say anything of how many it rejects.
  Push(&exporter, 2);
  EXPECT_EQ(AwaitSpans(exporter, 2 * kSpans).refused, 2 * kSpans);
}

TEST(OtlpExporterTest, EndsThoughTheCollectorStalls) {
  Script script;
  script.is_stalled = true;
  {
    OtlpExporter exporter(Quick(), std::make_unique<ScriptedSender>(&script), Ids);
    Push(&exporter, 1);
    Await(script.calls, 1);
  }
  EXPECT_TRUE(script.is_interrupted);
}

TEST(OtlpExporterTest, MakesNoBatchesOfWhatStillWaitsThen) {
  Script script;
  script.is_stalled = true;
  {
    OtlpExporter exporter(Quick(), std::make_unique<ScriptedSender>(&script), Ids);
    Push(&exporter, 1);
    Await(script.calls, 1);
    for (std::uint64_t id = 2; id <= 100; ++id) Push(&exporter, id);
  }
  EXPECT_EQ(script.calls, 1);
}

TEST(OtlpExporterTest, SendsWhatIsLeftAtTheEnd) {
  Script script;
  OtlpExporter::Options options = Quick();
  options.period = std::chrono::hours(1);
  options.last_moment = std::chrono::hours(1);
  {
    OtlpExporter exporter(options, std::make_unique<ScriptedSender>(&script), Ids);
    Push(&exporter, 1);
  }
  EXPECT_EQ(script.calls, 1);
}

}  // namespace
}  // namespace gemmd
