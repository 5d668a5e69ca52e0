#include "client/stream/session_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/details.h"
#include "gemmd/v1/status.pb.h"

namespace gemmd::client {
namespace {

constexpr int kFirst = 0;

// Bounds of one message: as many events as a server takes, and of several so few bytes that the
// first waits for a moment only, and no server refuses them together.
constexpr std::size_t kMostEvents = 64;
constexpr std::uint64_t kBatchBytes = 1 << 20;

// One whose chunks are sent, and others that are accepted meanwhile.
constexpr int kMaxUploading = 4;

absl::Status StatusOf(const v1::MatmulStreamResponse::Finished& finished) {
  constexpr std::uint32_t kLargestCode = 16;  // of google.rpc.Code
  if (finished.code() > kLargestCode) {
    return absl::UnknownError(absl::StrCat("code ", finished.code(), ": ", finished.message()));
  }
  const auto code = static_cast<absl::StatusCode>(finished.code());
  // The server cancelled it: a request that this side cancels does not wait for Finished.
  if (code == absl::StatusCode::kCancelled) {
    return absl::UnavailableError(
        absl::StrCat("the server cancelled the request: ", finished.message()));
  }
  absl::Status status(code, finished.message());
  if (finished.has_missing()) SetDetail(finished.missing(), status);
  return status;
}

// Returns the status for requests that were on a stream when it ended.
absl::Status Reason(const absl::Status& status) {
  if (status.ok()) {
    return absl::UnavailableError("the server ended the stream before its requests");
  }
  if (absl::IsCancelled(status)) {
    return absl::UnavailableError(absl::StrCat("the stream was cancelled: ", status.message()));
  }
  return status;
}

}  // namespace

void Notify(const StreamEnd& end) {
  if (!end.status.ok()) return end.done(end.status, end.pushback);
  v1::MatmulStreamResponse::Finished& finished = *end.finished->message.mutable_finished();
  absl::StatusOr<Answer> answer = Answer();
  if (end.assembly != nullptr) {
    answer->format = end.assembly->format();
    answer->d = std::move(*end.assembly).Take();
  } else {
    answer = DecodeResult({finished.receipt(), finished.d(), finished.handle(), finished.payload(),
                           end.finished->payload},
                          end.matmul->expected);
  }
  if (answer.ok()) answer->receipt = std::move(*finished.mutable_receipt());
  end.done(std::move(answer), Pushback());
}

SessionState::SessionState(int streams) : streams_(static_cast<std::size_t>(streams)) {
  streams_[kFirst].phase = Stream::Phase::kReady;
  must_open_ = streams > 1;
}

Actions SessionState::Start(StreamRequest request, std::uint64_t* id, bool waits) {
  Actions actions;
  *id = next_id_++;
  if (request.deadline != absl::InfiniteFuture()) {
    deadlines_.emplace(request.deadline, *id);
    if (request.deadline < wake_) wake_ = actions.wake = request.deadline;
  }
  Request& added = requests_[*id];
  const std::uint64_t bytes = request.matmul->payload_bytes;
  const bool may_go_unasked = streams_.size() == 1 && !is_refusing_;
  added.await_accepted =
      bytes > request.chunk_bytes && !(may_go_unasked && bytes <= request.unasked_bytes);
  added.asked = std::move(request);
  (added.await_accepted ? large_ : small_).push_back(*id);
  if (!waits) Pump(actions);
  return actions;
}

Actions SessionState::Flush() {
  Actions actions;
  Pump(actions);
  return actions;
}

Actions SessionState::Cancel(std::uint64_t id) {
  Actions actions;
  const auto found = requests_.find(id);
  if (found != requests_.end())
    Fail(found, absl::CancelledError("cancelled by its caller"), actions);
  return actions;
}

Actions SessionState::Wake(absl::Time asked) {
  Actions actions;
  if (asked != wake_) return actions;  // an earlier one came in between, and saw to the rest
  while (!deadlines_.empty() && deadlines_.begin()->first <= asked) {
    Fail(requests_.find(deadlines_.begin()->second),
         absl::DeadlineExceededError("the deadline passed before the result came"), actions);
  }
  wake_ = actions.wake = deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first;
  return actions;
}

Actions SessionState::Close(const absl::Status& why) {
  Actions actions;
  End(State::kClosed, why, actions);
  return actions;
}

Actions SessionState::Written(int stream) {
  Actions actions;
  streams_[static_cast<std::size_t>(stream)].writing = false;
  Pump(actions);
  return actions;
}

bool SessionState::ReadEnded(int stream) {
  Stream& state = streams_[static_cast<std::size_t>(stream)];
  state.phase = Stream::Phase::kEnded;
  return state.writing;
}

Actions SessionState::Received(int stream, std::shared_ptr<StreamAnswer> answer) {
  Actions actions;
  Take(stream, std::move(answer), actions);
  Pump(actions);
  return actions;
}

Actions SessionState::ReceivedBatch(int stream,
                                    const std::vector<std::shared_ptr<StreamAnswer>>& answers) {
  Actions actions;
  ReceivesBatches();
  for (const std::shared_ptr<StreamAnswer>& answer : answers) Take(stream, answer, actions);
  Pump(actions);
  return actions;
}

void SessionState::Take(int stream, std::shared_ptr<StreamAnswer> answer, Actions& actions) {
  if (is_over()) return;
  const v1::MatmulStreamResponse& message = answer->message;
  switch (message.event_case()) {
    case v1::MatmulStreamResponse::kOpened:
      OnOpened(stream, message.opened(), actions);
      break;
    case v1::MatmulStreamResponse::kJoined:
      OnJoined(stream, actions);
      break;
    case v1::MatmulStreamResponse::kAccepted:
      OnAccepted(message.accepted().request_id(), actions);
      break;
    case v1::MatmulStreamResponse::kFinished:
      OnFinished(answer, actions);
      break;
    case v1::MatmulStreamResponse::kChunk:
      OnChunk(std::move(answer), actions);
      break;
    default:
      return End(State::kClosed, BadResponse("an event is unknown here"), actions);
  }
}

Actions SessionState::Copied(std::uint64_t id, std::uint64_t bytes) {
  Actions actions;
  const auto found = requests_.find(id);
  if (found == requests_.end()) return actions;
  Request& request = found->second;
  request.copied_bytes += bytes;
  if (request.copied_bytes == request.assembly->size_bytes()) {
    actions.ends.push_back(Remove(found));
    Pump(actions);
  }
  return actions;
}

Actions SessionState::Ended(int stream, const absl::Status& status) {
  Actions actions;
  Stream& ended = streams_[static_cast<std::size_t>(stream)];
  ended.phase = Stream::Phase::kEnded;
  ++ended_;
  const bool is_refusal = IsRefusal(ended, status);
  const bool is_the_servers = !status.ok() && !absl::IsCancelled(status);
  // Any other end may have left streams that the server will never end.
  const bool is_drained = DetailOf<v1::Draining>(status).has_value();
  if (!is_over() && is_drained && OthersEndToo()) {
    state_ = State::kRetired;
    if (reason_.ok()) reason_ = status;
    Pump(actions);
  } else if (!is_over()) {
    End(State::kLost, reason_.ok() ? Reason(status) : reason_, actions);
  } else if (state_ == State::kLost && is_the_servers && absl::IsUnavailable(reason_)) {
    reason_ = status;  // says more than that another stream was cancelled for it
  }
  if (is_refusal) {
    refused_streams_ = true;
    reason_ = absl::UnavailableError(
        absl::StrCat("the server refused a session over several connections: ", status.message()));
  }
  if (ended_ < static_cast<int>(streams_.size())) return actions;
  while (!requests_.empty()) {
    StreamEnd end = Remove(requests_.begin());
    end.status = reason_;
    actions.ends.push_back(std::move(end));
  }
  return actions;
}

bool SessionState::IsRefusal(const Stream& stream, const absl::Status& status) const {
  if (streams_.size() == 1) return false;
  if (absl::IsNotFound(status) || absl::IsResourceExhausted(status)) return true;
  // HAProxy says so, whatever the server said, of a stream that the server ends first.
  return stream.asks_to_join && !is_over() && absl::IsCancelled(status);
}

absl::Status SessionState::why_ended() const {
  return reason_.ok() ? absl::UnavailableError("the server is draining") : reason_;
}

// A server that drains ends all streams of a session once it has sent what it had. Results that go
// over another connection may still be on their way.
bool SessionState::OthersEndToo() const {
  return ended_ < static_cast<int>(streams_.size()) &&
         std::all_of(streams_.begin(), streams_.end(), [](const Stream& stream) {
           // One that is joining may come to a session that has ended.
           return stream.phase == Stream::Phase::kReady || stream.phase == Stream::Phase::kEnded;
         });
}

void SessionState::Pump(Actions& actions) {
  if (is_over()) return;
  if (state_ == State::kRetired && requests_.empty()) {
    return End(State::kClosed, absl::UnavailableError("the server is draining"), actions);
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].writing) continue;
    Outgoing message;
    if (!Next(static_cast<int>(i), message)) continue;
    message.stream = static_cast<int>(i);
    streams_[i].writing = true;
    actions.writes.push_back(std::move(message));
  }
}

bool SessionState::Next(int stream, Outgoing& message) {
  Stream& state = streams_[static_cast<std::size_t>(stream)];
  if (state.phase == Stream::Phase::kMayJoin) {
    state.phase = Stream::Phase::kJoining;
    state.asks_to_join = true;
    message.kind = Outgoing::Kind::kJoin;
    message.session = session_;
    return true;
  }
  if (state.phase != Stream::Phase::kReady) return false;
  return (stream == kFirst && NextControl(message)) || NextChunk(message);
}

bool SessionState::NextControl(Outgoing& message) {
  if (must_open_) {
    must_open_ = false;
    message.kind = Outgoing::Kind::kOpen;
    return true;
  }
  if (!cancels_.empty()) {
    message.kind = Outgoing::Kind::kCancel;
    message.request_id = cancels_.front();
    cancels_.pop_front();
    return true;
  }
  if (NextBegin(small_, message)) {
    if (sends_batches_) AddBegins(message);
    return true;
  }
  return uploading_ < kMaxUploading && NextBegin(large_, message);
}

void SessionState::AddBegins(Outgoing& message) {
  std::uint64_t bytes = message.matmul->payload_bytes;
  while (!small_.empty() && message.more.size() + 1 < kMostEvents) {
    const auto next = requests_.find(small_.front());
    if (next == requests_.end()) {
      small_.pop_front();  // ended before it began
      continue;
    }
    bytes += next->second.asked.matmul->payload_bytes;
    if (bytes > kBatchBytes) return;
    NextBegin(small_, message.more.emplace_back());
  }
}

bool SessionState::NextBegin(std::deque<std::uint64_t>& waiting, Outgoing& message) {
  while (!waiting.empty()) {
    const auto found = requests_.find(waiting.front());
    waiting.pop_front();
    if (found == requests_.end()) continue;  // ended before it began
    Request& request = found->second;
    request.phase = Request::Phase::kBegun;
    if (request.await_accepted) ++uploading_;
    message.kind = Outgoing::Kind::kBegin;
    message.request_id = found->first;
    message.matmul = request.asked.matmul;
    message.deadline = request.asked.deadline;
    message.trace = request.asked.trace;
    message.await_accepted = request.await_accepted;
    return true;
  }
  return false;
}

bool SessionState::NextChunk(Outgoing& message) {
  while (!sending_.empty()) {
    const auto found = requests_.find(sending_.front());
    if (found == requests_.end()) {
      sending_.pop_front();
      continue;
    }
    Request& request = found->second;
    const EncodedMatmul& matmul = *request.asked.matmul;
    const std::uint64_t size = matmul.planes[request.plane].bytes.view().size();
    message.kind = Outgoing::Kind::kChunk;
    message.request_id = found->first;
    message.matmul = request.asked.matmul;
    message.plane = request.plane;
    message.offset = request.offset;
    message.bytes = std::min(request.asked.chunk_bytes, size - request.offset);
    request.offset += message.bytes;
    if (request.offset == size) {
      ++request.plane;
      request.offset = 0;
    }
    if (request.all_sent()) {
      sending_.pop_front();
      --uploading_;
    }
    return true;
  }
  return false;
}

SessionState::Requests::iterator SessionState::Find(std::uint64_t id, Actions& actions) {
  const auto found = requests_.find(id);
  if (found == requests_.end() && (id == 0 || id >= next_id_)) {
    End(State::kClosed, BadResponse(absl::StrCat("there is no request ", id)), actions);
  }
  return found;
}

void SessionState::OnOpened(int stream, const v1::MatmulStreamResponse::Opened& opened,
                            Actions& actions) {
  if (stream != kFirst || streams_.size() == 1 || !session_.empty() || opened.session().empty()) {
    return End(State::kClosed,
               BadResponse("Opened where nothing is to be opened, or without a session"), actions);
  }
  session_ = opened.session();
  for (Stream& other : streams_) {
    if (other.phase == Stream::Phase::kClosed) other.phase = Stream::Phase::kMayJoin;
  }
}

void SessionState::OnJoined(int stream, Actions& actions) {
  Stream& state = streams_[static_cast<std::size_t>(stream)];
  if (state.phase != Stream::Phase::kJoining) {
    return End(State::kClosed, BadResponse("Joined where nothing is to be joined"), actions);
  }
  state.phase = Stream::Phase::kReady;
  state.asks_to_join = false;
}

void SessionState::OnAccepted(std::uint64_t id, Actions& actions) {
  const auto found = Find(id, actions);
  if (found == requests_.end()) return;
  Request& request = found->second;
  if (request.phase != Request::Phase::kBegun || !request.await_accepted || request.finished) {
    return Fail(found, BadResponse("it was accepted where nothing waits for that"), actions);
  }
  request.phase = Request::Phase::kAccepted;
  is_refusing_ = false;
  sending_.push_back(id);
}

void SessionState::OnFinished(const std::shared_ptr<StreamAnswer>& answer, Actions& actions) {
  const v1::MatmulStreamResponse::Finished& finished = answer->message.finished();
  const auto found = Find(finished.request_id(), actions);
  if (found == requests_.end()) return;
  Request& request = found->second;
  if (!request.is_begun() || request.finished != nullptr) {
    return Fail(found, BadResponse("it finished twice, or before it began"), actions);
  }
  request.finished = answer;
  if (finished.code() != 0) {
    const bool is_large = request.asked.matmul->payload_bytes > request.asked.chunk_bytes;
    is_refusing_ = is_refusing_ || is_large;
    StreamEnd end = Remove(found);
    end.status = StatusOf(finished);
    if (finished.retry_after_ms() > 0) {
      end.pushback.kind = Pushback::Kind::kDelay;
      end.pushback.delay = absl::Milliseconds(static_cast<std::int64_t>(
          std::min<std::uint64_t>(finished.retry_after_ms(), 1ULL << 31)));
    }
    if (absl::IsUnavailable(end.status)) state_ = State::kRetired;
    actions.ends.push_back(std::move(end));
    return;
  }
  if (!request.all_sent()) {
    return Fail(found, BadResponse("it finished before its payload was sent"), actions);
  }
  if (finished.payload_size() > 0 || !request.asked.matmul->expected.comes_along()) {
    if (!request.early.empty()) {
      return Fail(found, BadResponse("the result came in Finished and in chunks"), actions);
    }
    actions.ends.push_back(Remove(found));
    return;
  }
  absl::Status products = CheckProducts(finished.receipt(), request.asked.matmul->expected);
  if (!products.ok()) return Fail(found, std::move(products), actions);
  absl::StatusOr<ResultAssembly> assembly =
      ResultAssembly::Create(finished.d(), request.asked.matmul->expected);
  if (assembly.ok() && assembly->size_bytes() > request.asked.matmul->expected.max_bytes()) {
    assembly = BadResponse(absl::StrCat(
        "D has leading dimension ", finished.d().leading_dimension(), ", which was not asked for"));
  }
  if (!assembly.ok()) return Fail(found, assembly.status(), actions);
  request.assembly = std::make_shared<ResultAssembly>(*std::move(assembly));
  request.assembly->Allocate();
  const std::vector<std::shared_ptr<StreamAnswer>> early = std::move(request.early);
  for (const auto& chunk : early) {
    const auto still = requests_.find(finished.request_id());
    if (still != requests_.end()) Place(still, chunk, actions);
  }
}

void SessionState::OnChunk(std::shared_ptr<StreamAnswer> answer, Actions& actions) {
  const v1::Chunk& chunk = answer->message.chunk();
  const auto found = Find(chunk.request_id(), actions);
  if (found == requests_.end()) return;
  Request& request = found->second;
  if (request.finished != nullptr) return Place(found, std::move(answer), actions);
  // The chunk's place is known once the other stream has brought Finished.
  request.early_bytes += SizeOf(answer->payload.of(chunk));
  // Overlaps are found later, so this is what bounds the memory.
  const ExpectedResult& expected = request.asked.matmul->expected;
  if (!expected.comes_along() || request.early_bytes > expected.max_bytes()) {
    return Fail(found, BadResponse("more bytes came than any result has"), actions);
  }
  request.early.push_back(std::move(answer));
}

void SessionState::Place(Requests::iterator found, std::shared_ptr<const StreamAnswer> chunk,
                         Actions& actions) {
  const v1::Chunk& head = chunk->message.chunk();
  const std::shared_ptr<ResultAssembly>& assembly = found->second.assembly;
  const absl::Status claimed = assembly->Claim(head, SizeOf(chunk->payload.of(head)));
  if (!claimed.ok()) return Fail(found, claimed, actions);
  actions.copies.push_back(ChunkCopy{found->first, assembly, std::move(chunk)});
}

StreamEnd SessionState::Remove(Requests::iterator found) {
  Request& request = found->second;
  if (request.is_begun() && !request.all_sent()) --uploading_;
  StreamEnd end;
  end.done = std::move(request.asked.done);
  end.finished = std::move(request.finished);
  end.assembly = std::move(request.assembly);
  end.matmul = std::move(request.asked.matmul);
  deadlines_.erase({request.asked.deadline, found->first});
  requests_.erase(found);
  return end;
}

void SessionState::Fail(Requests::iterator found, absl::Status status, Actions& actions) {
  const Request& request = found->second;
  if (request.is_begun() && request.finished == nullptr) {
    cancels_.push_back(found->first);
  }
  StreamEnd end = Remove(found);
  end.status = std::move(status);
  actions.ends.push_back(std::move(end));
  Pump(actions);
}

void SessionState::End(State state, absl::Status reason, Actions& actions) {
  if (is_over()) return;
  state_ = state;
  reason_ = std::move(reason);
  actions.cancel_streams = true;
}

}  // namespace gemmd::client
