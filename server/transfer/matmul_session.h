// One client's requests in flight over one or several streams, from their headers to the last
// byte of their results. Knows nothing of gRPC: streams bring events and fetch what to send.
//
// A request is, in this order:
//   receiving  admitted; chunks are copied into the device's memory
//   running    every byte was there; the scheduler has it
//   sending    its result leaves, chunk by chunk, over whichever stream asks next
// and ends, from any of these, with exactly one RequestFinished, unless the session breaks.
//
// Memory is bounded whatever the client does. Before its header was admitted a request holds
// nothing, afterwards what admission reserved; streams are not read while the client does not
// fetch its answers, and a session that makes no progress for a time is broken.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/admission/admission.h"
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
};

// Thread-safe. Made by std::make_shared; jobs keep it alive until they end.
class MatmulSession : public std::enable_shared_from_this<MatmulSession> {
 public:
  struct Options {
    std::size_t max_requests = 1024;              // in flight; one more is refused
    int max_streams = 32;                         // the first included
    std::uint64_t chunk_bytes = 1 << 20;          // of results
    std::uint64_t small_result_bytes = 64 << 10;  // up to this they travel with Finished
    TimeNs stall_timeout = 30'000'000'000;
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

  // RESOURCE_EXHAUSTED: it has max_streams. UNAVAILABLE: it has ended.
  absl::StatusOr<StreamId> AddStream(Wake wake);

  // Events of a stream. What is wrong with one request ends that request alone.
  // INVALID_ARGUMENT: a request of this id is in flight; Break() is due.
  absl::Status Begin(RequestHeader header);
  void Receive(std::uint64_t request_id, const absl::StatusOr<PayloadChunk>& chunk);
  void Cancel(std::uint64_t request_id);
  // The stream's client sends nothing more.
  void EndInput(StreamId stream);
  // Ends the session and every request of it; its streams close with `why`.
  void Break(const absl::Status& why);

  // Sent before everything else on the stream: Opened or Joined.
  void Greet(StreamId stream, Outgoing greeting);
  // The message that the stream sends next; empty: none. Several are all RequestFinished, of
  // about chunk_bytes of payload at most, for a client that accepts batches.
  std::vector<Outgoing> NextMessage(StreamId stream);
  // Whether the stream should read on; if not, a Wake follows when it should.
  bool MayRead(StreamId stream) const;
  // How the stream is to be closed, once it is to be and NextMessage() gave nothing.
  std::optional<absl::Status> Closing() const;

  // Ends what is late by now: requests past their deadline whose payload is not there, requests
  // without new payload for the stall timeout, and the session if its client did not read
  // for so long.
  void EndLate(TimeNs now);
  // From here on an idle session closes with UNAVAILABLE.
  void StartDraining();

 private:
  enum class State : std::uint8_t { kReceiving, kRunning };
  struct Request {
    std::uint64_t client_id = 0;
    std::uint64_t server_id = 0;
    TimeNs deadline = kNoDeadline;
    TimeNs arrival = 0;
    StageSpan decode;
    TimeNs receive_start = 0;
    // Chunks are copied into it without the lock; whoever submits it takes it.
    std::unique_ptr<AdmittedMatmul> admitted;

    // Guarded by mutex_.
    State state = State::kReceiving;
    int copies = 0;  // under way
    bool is_cancelled = false;
    TimeNs last_progress = 0;
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
    std::optional<TimeNs> sending_since;  // what NextMessage() gave last
  };

  // Starts the request if it is complete and nobody writes to it.
  void SubmitIfComplete(const RequestPtr& request);
  void OnFinished(const RequestPtr& request, MatmulOutcome outcome);
  // Whether the id is that of a request in flight.
  bool IsUsedLocked(std::uint64_t request_id) const;
  bool IsIdleLocked() const;
  std::optional<Outgoing> TakeNextLocked(StreamId stream);
  // Ends a request that is receiving.
  void EndReceivingLocked(const RequestPtr& request, absl::Status status);
  void SendLocked(RequestFinished finished) { control_.emplace_back(std::move(finished)); }
  // REQUIRES of both: mutex_ not held. WakeAll() does it once for all that happens to the session
  // under a Deferral of the thread.
  void WakeAll();
  void WakeNow() const;

  Admission* const admission_;
  Statistics* const statistics_;
  const Clock* const clock_;
  const Options options_;

  mutable std::mutex mutex_;  // all below is guarded by it
  std::vector<Stream> streams_;
  std::map<std::uint64_t, RequestPtr> requests_;  // receiving and running, by the client's id
  std::deque<Outgoing> control_;                  // of the first stream
  std::list<Result> results_;                     // the first one gives the next chunk
  bool accepts_batches_ = false;
  bool is_draining_ = false;
  std::optional<absl::Status> broken_;
};

}  // namespace gemmd
