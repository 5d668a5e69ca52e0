// One session of MatmulStream as this side sees it: requests, their chunks, and what goes over
// which stream next. A state machine that has no clock, lock, thread or socket: every event is
// a call, and the call's value says what is to be done about it.
//
// Only few requests are begun that wait with their payload until the server accepts them: it keeps
// memory for them, and does not wait for payload for ever. Asking first takes a round trip, and
// more messages take longer, so a payload of middling size goes with its header unless the server
// refused the last.
//
// A session has 1 or more streams. The first carries Begin and Cancel; chunks go over any
// stream that has joined, to whichever asks first, so that a slow connection takes less.
//
// State of the session, which never goes back:
//   open     takes requests
//   retired  the server drains: what is in flight goes on, and then it is closed
//   lost     a stream ended under requests: the ends of the others may say better why
//   closed   this side ended it, and knows why
// Phase of a request, which is taken out when it ends:
//   queued    nothing of it was written
//   begun     Begin was written, with the payload unless it awaits that it is accepted
//   accepted  its chunks may go; only of one that awaited it
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/result.h"
#include "client/retry.h"
#include "client/wire/codec.h"
#include "client/wire/trace_headers.h"
#include "gemmd/v1/gemm.pb.h"
#include "proto/payload_codec.h"

namespace gemmd::client {

// An answer as it was received; whoever makes one keeps what the payload views.
struct StreamAnswer {
  v1::MatmulStreamResponse message;
  PayloadViews payload;
};

// Runs once. The pushback is the server's, and says nothing unless the status is an error.
using StreamDone = std::function<void(absl::StatusOr<Answer>, const Pushback&)>;

struct StreamRequest {
  std::shared_ptr<const EncodedMatmul> matmul;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<const TraceHeaders> trace;  // null: none
  // A payload that fits goes with the header. Anything larger waits until the server has memory for
  // it, and then goes in chunks of this size.
  std::uint64_t chunk_bytes = 1 << 20;
  // A payload of up to this size goes with the header too where the session has one stream and the
  // server did not refuse the last that was more than a chunk: a refused payload was sent in vain.
  std::uint64_t unasked_bytes = 0;
  StreamDone done;
};

// One message to be written.
struct Outgoing {
  enum class Kind { kOpen, kJoin, kBegin, kCancel, kChunk };
  Kind kind = Kind::kOpen;
  int stream = 0;
  std::uint64_t request_id = 0;                 // all but kOpen and kJoin
  std::shared_ptr<const EncodedMatmul> matmul;  // kBegin, kChunk
  absl::Time deadline;                          // kBegin
  std::shared_ptr<const TraceHeaders> trace;    // kBegin; null: none
  bool await_accepted = false;                  // kBegin; if not, the payload goes with it
  std::size_t plane = 0;                        // kChunk: of matmul->planes, and
  std::uint64_t offset = 0;                     //   where in it, and
  std::uint64_t bytes = 0;                      //   how much
  std::string session;                          // kJoin
  std::vector<Outgoing> more;                   // kBegin: others that go in the same message
};

// Bytes of a chunk to be copied into a result, then Copied(). Any thread may do it.
struct ChunkCopy {
  std::uint64_t request_id = 0;
  std::shared_ptr<ResultAssembly> into;
  std::shared_ptr<const StreamAnswer> from;  // a chunk
};

// A request that has ended: Notify() tells its caller.
struct StreamEnd {
  StreamDone done;
  absl::Status status;
  Pushback pushback;
  // Where the status is OK: the answer with the receipt. The result is in `assembly` or, where that
  // is null, in the answer's payload.
  std::shared_ptr<StreamAnswer> finished;
  std::shared_ptr<ResultAssembly> assembly;
  std::shared_ptr<const EncodedMatmul> matmul;
};

void Notify(const StreamEnd& end);

// Actions to take, in any order.
struct Actions {
  absl::InlinedVector<Outgoing, 1> writes;  // each followed by Written()
  absl::InlinedVector<ChunkCopy, 1> copies;
  absl::InlinedVector<StreamEnd, 1> ends;
  bool cancel_streams = false;               // each followed by Ended()
  absl::Time wake = absl::InfiniteFuture();  // if finite: then call Wake() with it
};

// A request ends with INTERNAL where the server's answer contradicts itself or the request; an
// answer to none of the session's requests ends all of them so. UNAVAILABLE means that the session
// broke: the request may be tried again on another.
class SessionState {
 public:
  // REQUIRES: streams >= 1.
  explicit SessionState(int streams);

  // False: the session takes no further request, because it ends or the server is draining.
  bool accepting() const { return state_ == State::kOpen; }
  // The server has refused the session's other streams: another should have just one.
  bool refused_streams() const { return refused_streams_; }
  // REQUIRES: !accepting().
  absl::Status why_ended() const;
  // The server knows no such method.
  bool is_unimplemented() const { return reason_.code() == absl::StatusCode::kUnimplemented; }
  std::size_t in_flight() const { return requests_.size(); }

  // REQUIRES: accepting(). `id` is for Cancel(). If `waits`, nothing is sent before Flush() or
  // any other event.
  Actions Start(StreamRequest request, std::uint64_t* id, bool waits = false);
  Actions Flush();
  // Ends the request with CANCELLED; nothing if it has ended.
  Actions Cancel(std::uint64_t id);
  Actions Wake(absl::Time asked);
  // Ends the session; requests in flight get `why`.
  Actions Close(const absl::Status& why);

  // The write on this stream is over, well or not.
  Actions Written(int stream);
  // Nothing will be received from this stream, and nothing more is to be written to it. True
  // where a write is still under way.
  bool ReadEnded(int stream);
  Actions Received(int stream, std::shared_ptr<StreamAnswer> answer);
  // The answers of one message. A client that sends batches reads them too.
  Actions ReceivedBatch(int stream, const std::vector<std::shared_ptr<StreamAnswer>>& answers);
  void ReceivesBatches() { sends_batches_ = true; }
  // Something came that is no message of the contract.
  Actions ReceivedGarbage() { return Close(BadResponse("it is no MatmulStreamResponse")); }
  Actions Copied(std::uint64_t id, std::uint64_t bytes);
  // Once for each stream, with the status that the server ended it with.
  Actions Ended(int stream, const absl::Status& status);

 private:
  enum class State { kOpen, kRetired, kLost, kClosed };
  struct Request {
    enum class Phase { kQueued, kBegun, kAccepted };
    StreamRequest asked;
    Phase phase = Phase::kQueued;
    bool await_accepted = false;
    std::size_t plane = 0;  // the next chunk begins here
    std::uint64_t offset = 0;

    std::vector<std::shared_ptr<StreamAnswer>> early;  // chunks before Finished
    std::uint64_t early_bytes = 0;
    std::shared_ptr<StreamAnswer> finished;
    std::shared_ptr<ResultAssembly> assembly;  // with `finished`
    std::uint64_t copied_bytes = 0;

    bool is_begun() const { return phase != Phase::kQueued; }
    bool all_sent() const { return !await_accepted || plane == asked.matmul->planes.size(); }
  };
  struct Stream {
    enum class Phase { kClosed, kMayJoin, kJoining, kReady, kEnded };
    Phase phase = Phase::kClosed;
    bool writing = false;
    bool asks_to_join = false;  // Join was sent, and has no answer
  };
  using Requests = std::unordered_map<std::uint64_t, Request>;

  // Returns whether the server will have no further streams in this session.
  bool IsRefusal(const Stream& stream, const absl::Status& status) const;
  // Returns whether the server will end the remaining streams without a word from here.
  bool OthersEndToo() const;
  void Pump(Actions& actions);
  bool Next(int stream, Outgoing& message);
  bool NextControl(Outgoing& message);
  bool NextChunk(Outgoing& message);

  bool NextBegin(std::deque<std::uint64_t>& waiting, Outgoing& message);
  // Has small requests that wait go with this one.
  void AddBegins(Outgoing& message);

  // Returns the request of an answer; the end where it has ended, or where it never was, and then
  // the session breaks.
  Requests::iterator Find(std::uint64_t id, Actions& actions);
  void Take(int stream, std::shared_ptr<StreamAnswer> answer, Actions& actions);
  void OnOpened(int stream, const v1::MatmulStreamResponse::Opened& opened, Actions& actions);
  void OnJoined(int stream, Actions& actions);
  void OnAccepted(std::uint64_t id, Actions& actions);
  void OnFinished(const std::shared_ptr<StreamAnswer>& answer, Actions& actions);
  void OnChunk(std::shared_ptr<StreamAnswer> answer, Actions& actions);
  void Place(Requests::iterator found, std::shared_ptr<const StreamAnswer> chunk, Actions& actions);

  // Takes the request out. Fail also tells the server, where it may still be at it.
  StreamEnd Remove(Requests::iterator found);
  void Fail(Requests::iterator found, absl::Status status, Actions& actions);
  bool is_over() const { return state_ == State::kLost || state_ == State::kClosed; }
  // Ends the session, unless it is over. REQUIRES: `state` is kLost or kClosed.
  void End(State state, absl::Status reason, Actions& actions);

  std::vector<Stream> streams_;
  int ended_ = 0;
  State state_ = State::kOpen;
  bool refused_streams_ = false;
  absl::Status reason_;  // why it is over, or retired

  std::string session_;
  std::uint64_t next_id_ = 1;
  Requests requests_;
  bool must_open_ = false;
  bool sends_batches_ = false;
  std::deque<std::uint64_t> cancels_;
  std::deque<std::uint64_t> small_;    // to begin, with their payload
  std::deque<std::uint64_t> large_;    // to begin, and await memory
  int uploading_ = 0;                  // large ones begun, with chunks to go
  std::deque<std::uint64_t> sending_;  // those of them that were accepted
  bool is_refusing_ = false;           // it refused the last that was more than a chunk
  std::set<std::pair<absl::Time, std::uint64_t>> deadlines_;
  absl::Time wake_ = absl::InfiniteFuture();
};

}  // namespace gemmd::client
