// A session with a server below it that tests drive, and a play of random events on it.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "server/transfer/matmul_session.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/fake_kernel.h"

namespace gemmd::testing {

inline MatmulSession::Options SmallOptions() {
  MatmulSession::Options options;
  options.max_requests = 6;
  options.max_streams = 3;
  options.chunk_bytes = 50;
  options.small_result_bytes = 100;
  options.progress = {50 * kMillisecond, 1000};
  options.message_bytes = 100;
  return options;
}

// Few jobs may wait, and few costs are remembered: a play must not spend its time on tables.
inline SchedulerOptions SmallQueue() {
  SchedulerOptions options = BoundOf(4);
  options.remembered_costs = 64;
  return options;
}

// A server below the streams, with a device that the test drives and one kernel, because
// choosing among all of a build's would be most of what a play takes.
struct Server {
  // `waits`: for memory, instead of being refused.
  explicit Server(std::uint64_t memory_bytes = 1 << 20, bool waits = false)
      : device(&clock, memory_bytes, 2) {
    limits.request_bytes = 1 << 30;
    limits.result_bytes = 1 << 20;
    WaitingRoom::Bounds bounds;
    bounds.requests = 4;
    bounds.longest = 200 * kMillisecond;
    room = std::make_unique<WaitingRoom>(bounds, &clock, std::chrono::milliseconds(0));
    ClientPolicy policy;
    if (waits) policy.room = room.get();
    admission = std::make_unique<Admission>(limits, &OneFakeKernel(), &router, &clock,
                                            AdmissionHelpers(), policy);
  }

  std::shared_ptr<MatmulSession> NewSession(
      const MatmulSession::Options& options = SmallOptions()) {
    return std::make_shared<MatmulSession>(admission.get(), &statistics, &clock, options);
  }

  // The predicted wait of a request that comes now.
  double WaitUs() const {
    return scheduler.PredictWait({"", Priority::kNormal, kNoDeadline, 1, 1}).value();
  }

  FakeClock clock;
  FakeDevice device;
  FakeAlarm alarm;
  Scheduler scheduler{&device, &clock, &alarm, SmallQueue()};
  Router router{{{&device, &scheduler}}};
  Statistics statistics;
  RequestLimits limits;
  std::unique_ptr<WaitingRoom> room;
  std::unique_ptr<Admission> admission;
};

inline RequestHeader Header(std::uint64_t id, std::uint64_t n, TimeNs now,
                            std::uint64_t timeout_us = 0) {
  OperandSpec operand;
  operand.data = {DataType::kF32, n, n, Order::kRowMajor, 0};
  MatmulCall call;
  call.a = call.b = operand;
  RequestHeader header;
  header.request_id = id;
  header.call = call;
  header.timeout_us = timeout_us;
  header.arrival = now;
  header.decode = {Stage::kDecode, now, now};
  return header;
}

inline void Receive(MatmulSession* session, std::uint64_t id, OperandName operand,
                    std::uint64_t offset, std::uint64_t bytes) {
  const std::string zeros(bytes, '\0');
  const absl::string_view piece = zeros;
  session->Receive(id, PayloadChunk{operand, PlaneName::kData, offset, {&piece, 1}});
}

// Bytes of an operand that come with their header.
inline void AddPayload(OperandName operand, std::uint64_t bytes, RequestHeader* header) {
  struct Message {
    explicit Message(std::uint64_t size) : zeros(size, '\0'), piece(zeros) {}
    const std::string zeros;
    const absl::string_view piece;
    std::shared_ptr<const void> before;
  };
  auto message = std::make_shared<Message>(bytes);
  message->before = header->message;
  header->payload.push_back(PayloadChunk{operand, PlaneName::kData, 0, {&message->piece, 1}});
  header->message_bytes += bytes;
  header->message = std::move(message);
}

// Checks what a session sends against the contract.
class Receiver {
 public:
  // False: the stream has nothing.
  bool Fetch(MatmulSession* session, MatmulSession::StreamId stream) {
    const std::vector<Outgoing> message = session->NextMessage(stream);
    for (const Outgoing& each : message) {
      if (message.size() > 1 && !std::holds_alternative<RequestFinished>(each)) {
        fault_ = "a batch has something else than RequestFinished";
      }
      Take(each);
    }
    return !message.empty();
  }

  std::size_t finished() const { return finished_.size(); }
  // Returns a fault, if there was one; results of those cancelled may be cut off.
  std::string Fault(const std::set<std::uint64_t>& cancelled) const {
    for (const auto& [id, size] : sizes_) {
      if (cancelled.count(id) == 0 && received_.at(id) != size) {
        return absl::StrCat("request ", id, " has ", received_.at(id), " bytes of ", size);
      }
    }
    return fault_;
  }
  const std::string& fault() const { return fault_; }

 private:
  void Take(const Outgoing& sent) {
    if (const auto* finished = std::get_if<RequestFinished>(&sent)) {
      if (!finished_.insert(finished->request_id).second) {
        fault_ = absl::StrCat("request ", finished->request_id, " is told twice");
      }
      if (finished->status.ok()) {
        received_[finished->request_id] += SizeOf(finished->payload);
        sizes_[finished->request_id] = finished->d.size_bytes();
      }
    } else if (const auto* chunk = std::get_if<ResultChunk>(&sent)) {
      if (chunk->offset != received_[chunk->request_id]) {
        fault_ = absl::StrCat("a chunk of ", chunk->request_id, " is out of turn");
      }
      received_[chunk->request_id] += SizeOf(chunk->bytes);
    }
  }

  std::set<std::uint64_t> finished_;
  std::map<std::uint64_t, std::uint64_t> received_;
  std::map<std::uint64_t, std::uint64_t> sizes_;
  std::string fault_;
};

// Plays up to `events` events that the source chooses: headers, chunks, cancels, disconnects,
// expiries, and what the device and the client do meanwhile. Then every request must have been
// told at most one end, results be whole and all memory back; empty if so, else what was wrong.
// `random()` gives 32 bits.
template <typename Source>
std::string PlaySession(Source& random, unsigned events) {
  Server server(20000, random() % 2 == 0);
  const std::uint64_t free_bytes = server.device.memory().usage().free_bytes();
  std::set<std::uint64_t> cancelled;
  Receiver receiver;
  std::uint64_t begun = 0;
  bool is_broken = false;
  {
    auto session = server.NewSession();
    std::size_t streams = 0;
    std::vector<std::uint64_t> sizes;
    for (unsigned i = 0; i < events; ++i) {
      const std::uint64_t id = sizes.empty() ? 0 : random() % sizes.size();
      switch (streams == 0 ? 0 : random() % 14) {
        case 0:
          if (session->AddStream([] {}).ok()) ++streams;
          break;
        case 1:
        case 2: {
          const std::uint64_t n = 1 + random() % 12;
          sizes.push_back(n * n * 4);
          if (!is_broken) ++begun;
          RequestHeader header = Header(sizes.size() - 1, n, server.clock.Now(),
                                        random() % 3 == 0 ? 1000 + random() % 20000 : 0);
          header.await_accepted = random() % 2 == 0;
          header.accepts_batches = random() % 8 == 0;
          if (random() % 20 == 0) header.call = absl::InvalidArgumentError("bad");
          for (const OperandName operand : {OperandName::kA, OperandName::kB}) {
            if (random() % 3 == 0) AddPayload(operand, sizes.back(), &header);
          }
          if (!session->Begin(header).ok()) return "a header is refused";
          break;
        }
        case 3:
        case 4:
        case 5: {
          if (sizes.empty()) break;
          const auto operand = random() % 2 == 0 ? OperandName::kA : OperandName::kB;
          const std::uint64_t offset = random() % 8 == 0 ? random() % sizes[id] : 0;
          Receive(session.get(), id, operand, offset, sizes[id] - offset);
          break;
        }
        case 6:
          if (sizes.empty()) break;
          session->Cancel(id);
          cancelled.insert(id);
          break;
        case 7:
          if (random() % 10 == 0) session->EndInput(random() % streams);
          break;
        case 8:
          if (random() % 30 == 0) {
            session->Break(absl::CancelledError("disconnected"));
            is_broken = true;
          }
          break;
        case 9:
          if (random() % 3 == 0) {
            session->ExpectMessage(server.clock.Now() +
                                   static_cast<TimeNs>(random() % 200) * kMillisecond);
          }
          server.clock.Advance(static_cast<TimeNs>(random() % 20) * kMillisecond);
          server.alarm.RingIfDue(server.clock.Now());
          session->EndLate(server.clock.Now());
          server.room->Look();
          is_broken = is_broken || (session->Closing().has_value() && !session->Closing()->ok());
          break;
        case 10:
        case 11:
          server.device.FinishOne(random() % 10 == 0 ? absl::UnavailableError("lost")
                                                     : absl::OkStatus());
          break;
        default:
          receiver.Fetch(session.get(), random() % streams);
      }
    }
    if (streams == 0) return "";
    for (std::size_t stream = 0; stream < streams; ++stream) session->EndInput(stream);
    do {
      server.room->Look();
    } while (server.device.FinishOne() || server.room->waiting() != 0);
    while (receiver.Fetch(session.get(), random() % streams) ||
           receiver.Fetch(session.get(), MatmulSession::kFirst)) {
    }
    if (!session->Closing().has_value()) return "the session does not close";
    if (!receiver.fault().empty()) return receiver.fault();
    if (!is_broken) {
      if (receiver.finished() != begun) return "a request has no end";
      if (std::string fault = receiver.Fault(cancelled); !fault.empty()) return fault;
    }
  }
  const Statistics::Snapshot totals = server.statistics.Read();
  if (totals.received != begun) return "a request was not counted";
  if (totals.in_flight != 0) return "a request is counted as in flight";
  if (server.device.memory().usage().free_bytes() != free_bytes) return "memory leaked";
  if (server.WaitUs() != 0) return "a request that has ended is still expected";
  return "";
}

}  // namespace gemmd::testing
