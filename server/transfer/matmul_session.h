// One client's requests in flight over one or several streams, from their headers to the last
// byte of their results. Knows nothing of gRPC: streams bring events and fetch what to send.
//
// A request is, in this order:
//   waiting    its header came; memory is full
//   receiving  admitted; chunks are copied into the device's memory
//   running    every byte was there; the scheduler has it
//   sending    RequestFinished was queued, and the request is gone; a result too large to go with
//              that is a Result now, which leaves chunk by chunk over whichever stream asks next
// and ends, from any of these, with exactly one RequestFinished, unless the session breaks. A
// thread that is still copying into a request that has ended finds it so, and lets go.
//
// Memory is bounded whatever the client does. Before its header was admitted a request holds
// nothing but the message that brought it, afterwards what admission reserved; streams are not read
// while the client does not fetch its answers, and a session that makes no progress for a time is
// broken.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/admission/admission.h"
#include "server/observe/progress.h"
#include "server/observe/statistics.h"
#include "server/transfer/outgoing.h"

namespace gemmd {

// A request's header as a stream brought it.
struct RequestHeader {
  std::uint64_t request_id = 0;     // the client's
  absl::StatusOr<MatmulCall> call;  // or why it could not be decoded
  std::uint64_t timeout_us = 0;     // from `arrival` on; 0: none
  bool await_accepted = false;
  bool accepts_batches = false;  // the client, from here on
  TimeNs arrival = 0;
  StageSpan decode;
  TraceOrigin trace;
  // The payload that came in the same message. `message` is what the pieces lie in.
  std::vector<absl::StatusOr<PayloadChunk>> payload;
  std::shared_ptr<const void> message;
  std::uint64_t message_bytes = 0;
};

// Thread-safe. Made by std::make_shared; jobs keep it alive until they end.
class MatmulSession : public std::enable_shared_from_this<MatmulSession> {
 public:
  struct Options {
    std::size_t max_requests = 1024;              // in flight; one more is refused
    int max_streams = 32;                         // the first included
    std::uint64_t chunk_bytes = 1 << 20;          // of results
    std::uint64_t small_result_bytes = 64 << 10;  // up to this they travel with Finished
    ProgressLimit progress;  // of each request's payload, and of each message that is sent
    std::uint64_t message_bytes = 64 << 20;  // the largest that a stream brings
  };

  // A stream of the session; the first made is the first stream.
  using StreamId = std::size_t;
  static constexpr StreamId kFirst = 0;
  // Tells that NextMessage(), Closing() or MayRead() may have a new answer for the stream. Called
  // on any thread without locks held, perhaps more often than needed.
  using Wake = std::function<void()>;

  // The arguments outlive the session.
  MatmulSession(Admission* admission, Statistics* statistics, const Clock* clock,
                const Options& options)
      : admission_(admission), statistics_(statistics), clock_(clock), options_(options) {}
  ~MatmulSession() { OnClosed(); }
  MatmulSession(const MatmulSession&) = delete;
  MatmulSession& operator=(const MatmulSession&) = delete;

  // RESOURCE_EXHAUSTED: it has max_streams. UNAVAILABLE: it has ended.
  absl::StatusOr<StreamId> AddStream(Wake wake);

  // Events of a stream. An error of one request ends that request alone. INVALID_ARGUMENT: a
  // request of this id is in flight; Break() is due.
  absl::Status Begin(RequestHeader header);
  void Receive(std::uint64_t request_id, const absl::StatusOr<PayloadChunk>& chunk);
  void Cancel(std::uint64_t request_id);
  // A stream is bringing a message that is not whole, as fast as it must. Until `until` no payload
  // stalls, unless the largest message would have come meanwhile. The caller repeats this before
  // `until` as long as it holds.
  void ExpectMessage(TimeNs until);
  // The stream's client sends nothing more.
  void EndInput(StreamId stream);
  // Ends the session and every request of it; its streams close with `why`.
  void Break(const absl::Status& why);

  // Sent before everything else on the stream: Opened or Joined.
  void Greet(StreamId stream, Outgoing greeting);
  // The message that the stream sends next; empty: none. Several are all RequestFinished, of
  // about chunk_bytes of payload at most, for a client that accepts batches.
  std::vector<Outgoing> NextMessage(StreamId stream);
  // Its client does.
  bool accepts_batches() const;
  // Requests, from their begin to the last byte of their results.
  std::size_t in_flight() const;
  // Returns whether the stream should read on; if not, a Wake follows when it should.
  bool MayRead(StreamId stream) const;
  // The status to close the stream with, once it is to be closed and NextMessage() gave nothing.
  std::optional<absl::Status> Closing() const;
  // It is being closed so, and everything was sent.
  void OnClosed();

  // Ends what is late by now: requests past their deadline whose payload is not there, requests
  // whose payload has stalled, and the session if its client reads too slowly.
  void EndLate(TimeNs now);
  // The bytes of memory that wait for the client since `before` or longer: of requests whose
  // payload does not come, and of results that it does not read.
  std::uint64_t IdleBytes(TimeNs before) const;
  // Others need that memory: ends those requests, or where the client does not read, the session.
  void Recall(TimeNs before);
  // From here on an idle session closes with DrainingError(), unless its client ended it before.
  // REQUIRES: it has its first stream.
  void StartDraining();

 private:
  enum class State : std::uint8_t { kWaiting, kReceiving, kRunning, kEnded };
  struct Request {
    std::uint64_t client_id = 0;
    std::uint64_t server_id = 0;
    TimeNs deadline = kNoDeadline;
    TimeNs arrival = 0;
    StageSpan decode;
    TraceOrigin trace;
    TimeNs receive_start = 0;
    bool await_accepted = false;
    // Payload from the header, until the request is admitted.
    std::vector<absl::StatusOr<PayloadChunk>> payload;
    std::shared_ptr<const void> message;
    // Chunks are copied into it without the lock; whoever submits it takes it.
    std::unique_ptr<AdmittedMatmul> admitted;

    // Guarded by mutex_.
    State state = State::kWaiting;
    int copies = 0;  // under way
    bool is_cancelled = false;
    Progress progress;             // of its payload
    TimeNs moved = 0;              // when some of it came last
    std::uint64_t held_bytes = 0;  // of memory, once it is admitted
  };
  using RequestPtr = std::shared_ptr<Request>;
  struct Result {
    std::uint64_t client_id = 0;
    HostBuffer bytes;
    std::uint64_t size = 0;
    std::uint64_t sent = 0;
  };
  struct Stream {
    Wake wake;
    bool input_ended = false;
    std::optional<Outgoing> greeting;
    Progress sending;                    // of what NextMessage() gave last
    TimeNs sending_since = kNoDeadline;  // kNoDeadline: it gave nothing
  };

  // Takes the result of Admit() for a request, now or after it waited.
  void OnAdmitted(const RequestPtr& request,
                  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted);
  // REQUIRES: it was counted in `copies`, under the lock that found it receiving.
  void ReceiveInto(const RequestPtr& request, const absl::StatusOr<PayloadChunk>& chunk);
  bool HasInputLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers those that are receiving and will get nothing more.
  void EndIncompleteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the request if it is complete and nobody writes to it.
  void SubmitIfComplete(const RequestPtr& request);
  void OnFinished(const RequestPtr& request, MatmulOutcome outcome);
  // Returns whether the id is that of a request in flight.
  bool IsUsedLocked(std::uint64_t request_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsIdleLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::size_t InFlightLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return requests_.size() + results_.size();
  }
  std::optional<Outgoing> TakeNextLocked(StreamId stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a request that is waiting or receiving, and counts it.
  void EndReceivingLocked(const RequestPtr& request, absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a request that is waiting or receiving, and does not count it.
  void AnswerReceivingLocked(const RequestPtr& request, absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes of the results that wait for a client that has not read since `before`; 0 if it has.
  std::uint64_t UnreadBytesLocked(TimeNs before) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsStalledLocked(const Progress& payload, TimeNs now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendLocked(RequestFinished finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    control_.emplace_back(std::move(finished));
  }
  // WakeAll() does it once for all that happens to the session under a CoalescingScope of the
  // thread.
  void WakeAll() ABSL_LOCKS_EXCLUDED(mutex_);
  void WakeNow() const ABSL_LOCKS_EXCLUDED(mutex_);

  Admission* const admission_;
  Statistics* const statistics_;
  const Clock* const clock_;
  const Options options_;

  mutable Mutex mutex_;
  std::vector<Stream> streams_ ABSL_GUARDED_BY(mutex_);
  // Receiving and running, by the client's id.
  std::map<std::uint64_t, RequestPtr> requests_ ABSL_GUARDED_BY(mutex_);
  std::deque<Outgoing> control_ ABSL_GUARDED_BY(mutex_);  // of the first stream
  std::list<Result> results_ ABSL_GUARDED_BY(mutex_);     // the first one gives the next chunk
  // Status codes to count for requests that the input's end left without payload. It is not known
  // before the stream closes or breaks whether their client ended it or went away.
  std::vector<absl::StatusCode> incomplete_ ABSL_GUARDED_BY(mutex_);
  TimeNs message_expected_until_ ABSL_GUARDED_BY(mutex_) = 0;
  bool accepts_batches_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
