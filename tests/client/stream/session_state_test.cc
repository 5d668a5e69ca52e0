#include "client/stream/session_state.h"

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/stream/stream_message.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/stream_peer.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::ScriptedProduct;
using ::gemmd::testing::StreamPeer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct OwnedAnswer : StreamAnswer {
  std::string bytes;
};

// Through bytes and our own parser, as it would come.
std::shared_ptr<StreamAnswer> Answer(const v1::MatmulStreamResponse& message) {
  const auto answer = std::make_shared<OwnedAnswer>();
  answer->bytes = message.SerializeAsString();
  EXPECT_TRUE(ParseAroundPayload({answer->bytes}, &answer->message, &answer->payload));
  return answer;
}

// Through our own writer and the generated parser.
v1::MatmulStreamRequest Written(const Outgoing& outgoing) {
  const grpc::ByteBuffer bytes = StreamMessage(outgoing, absl::UnixEpoch());
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  v1::MatmulStreamRequest message;
  EXPECT_TRUE(message.ParseFromString(text));
  return message;
}

Matrix RandomMatrix(std::uint64_t rows, std::uint64_t columns, std::mt19937_64& random) {
  std::string bytes(rows * columns, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return *Matrix::Create(MatrixFormat{DataType::kInt8, rows, columns, Order::kRowMajor, 0},
                         std::move(bytes));
}

struct Asked {
  std::shared_ptr<const EncodedMatmul> matmul;
  std::string product;  // what is right
  int ends = 0;
  absl::Status status;
  Pushback pushback;
  std::string result;
};

std::shared_ptr<Asked> Ask(std::uint64_t m, std::uint64_t n, std::uint64_t k,
                           std::mt19937_64& random, bool with_bias = false) {
  MatmulInputs inputs{RandomMatrix(m, k, random), RandomMatrix(k, n, random)};
  std::string all = absl::StrCat(inputs.a.bytes(), inputs.b.bytes());
  if (with_bias) {
    inputs.bias = RandomMatrix(1, n, random);
    absl::StrAppend(&all, inputs.bias->bytes());
  }
  MatmulOptions options;
  options.output_type = DataType::kInt8;
  const auto asked = std::make_shared<Asked>();
  asked->matmul = Encode(std::move(inputs), options);
  asked->product = ScriptedProduct(all, m * n);
  return asked;
}

StreamRequest RequestOf(const std::shared_ptr<Asked>& asked, std::uint64_t chunk_bytes,
                        absl::Time deadline = absl::InfiniteFuture()) {
  StreamRequest request;
  request.matmul = asked->matmul;
  request.deadline = deadline;
  request.chunk_bytes = chunk_bytes;
  request.done = [asked](absl::StatusOr<StreamResult> result, const Pushback& pushback) {
    ++asked->ends;
    asked->status = result.status();
    asked->pushback = pushback;
    if (result.ok()) asked->result = std::string(result->d.bytes());
  };
  return request;
}

// A session and its peer; whatever is to happen next waits until it is let happen.
class Wires {
 public:
  Wires(int streams, std::uint64_t seed)
      : state(streams), peer(seed), random(seed), streams_(streams) {
    if (seed % 2 == 1) state.ReceivesBatches();
  }

  void Do(Todo todo) {
    for (Outgoing& message : todo.writes) {
      EXPECT_EQ(writing.count(message.stream), 0U) << "two writes on a stream";
      const int stream = message.stream;
      writing.emplace(stream, std::move(message));
    }
    for (ChunkCopy& copy : todo.copies) copies.push_back(std::move(copy));
    for (StreamEnd& end : todo.ends) Tell(std::move(end));
    if (todo.wake != absl::InfiniteFuture()) wakes.push_back(todo.wake);
    cancelled = cancelled || todo.cancel_streams;
  }

  // One thing that can happen, at random; false where nothing can.
  bool Step() {
    std::vector<std::function<void()>> steps;
    for (const auto& [stream, message] : writing) {
      steps.emplace_back([this, i = stream] { FinishWrite(i); });
    }
    for (int i = 0; i < streams_; ++i) {
      if (peer.has_to_send(i) && !cancelled) steps.emplace_back([this, i] { Deliver(i); });
    }
    for (std::size_t i = 0; i < copies.size(); ++i) steps.emplace_back([this, i] { Copy(i); });
    if (steps.empty()) return false;
    steps[random() % steps.size()]();
    return true;
  }
  void Run() {
    while (Step()) {
    }
  }

  void FinishWrite(int stream) {
    const Outgoing message = std::move(writing.extract(stream).mapped());
    peer.Receive(stream, client::Written(message));
    Do(state.Written(stream));
  }
  void Deliver(int stream) { Do(state.Received(stream, Answer(*peer.Send(stream)))); }
  void Copy(std::size_t index) {
    const ChunkCopy copy = std::move(copies[index]);
    copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(index));
    const v1::Chunk& chunk = copy.from->message.chunk();
    Do(state.Copied(copy.request_id,
                    copy.into->Copy(chunk.offset_bytes(), copy.from->payload.of(chunk))));
  }
  void Start(StreamRequest request, std::uint64_t* id) { Do(state.Start(std::move(request), id)); }
  std::uint64_t Start(StreamRequest request) {
    std::uint64_t id = 0;
    Start(std::move(request), &id);
    return id;
  }
  void EndAll(const absl::Status& first) {
    for (int i = 0; i < streams_; ++i) {
      Do(state.Ended(i, i == 0 ? first : absl::CancelledError("broken")));
    }
  }

  SessionState state;
  StreamPeer peer;
  std::mt19937_64 random;
  std::map<int, Outgoing> writing;
  std::vector<ChunkCopy> copies;
  std::vector<absl::Time> wakes;
  bool cancelled = false;

 private:
  const int streams_;
};

// Requests of all sizes, begun, cancelled and refused at random moments, over 1 to 5 streams whose
// messages arrive in any order among them. Each ends once, with its own bytes.
TEST(SessionStateTest, AnyInterleavingGivesEachRequestItsOwnResult) {
  int whole = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Wires wires(1 + static_cast<int>(random() % 5), seed);
    wires.peer.result_chunk_bytes = 1 + random() % 40;
    wires.peer.small_results_in_finished = random() % 2 == 0;
    wires.peer.refuse = [&random](const auto&) {
      std::optional<v1::MatmulStreamResponse::Finished> refusal;
      if (random() % 5 == 0) {
        refusal.emplace();
        refusal->set_code(8);
        refusal->set_message("full");
        refusal->set_retry_after_ms(7);
      }
      return refusal;
    };
    std::vector<std::shared_ptr<Asked>> all;
    std::map<std::uint64_t, std::shared_ptr<Asked>> cancelled;
    for (int i = 0; i < 12; ++i) {
      all.push_back(
          Ask(1 + random() % 9, 1 + random() % 9, 1 + random() % 9, random, random() % 3 == 0));
      StreamRequest request = RequestOf(all.back(), 1 + random() % 64);
      request.unasked_bytes = random() % 400;
      const std::uint64_t id = wires.Start(std::move(request));
      for (std::uint64_t steps = random() % 30; steps > 0; --steps) wires.Step();
      if (random() % 6 == 0 && all.back()->ends == 0) {
        cancelled[id] = all.back();
        wires.Do(wires.state.Cancel(id));
        EXPECT_EQ(all.back()->status.code(), absl::StatusCode::kCancelled);
      }
    }
    wires.Run();
    EXPECT_EQ(wires.state.in_flight(), 0U);
    EXPECT_EQ(wires.peer.in_flight(), 0U);
    EXPECT_THAT(wires.peer.faults(), IsEmpty());
    EXPECT_FALSE(wires.cancelled);
    EXPECT_TRUE(wires.state.accepting());
    for (const auto& asked : all) {
      EXPECT_EQ(asked->ends, 1);
      if (asked->status.ok()) {
        EXPECT_EQ(asked->result, asked->product);
        ++whole;
      } else if (!absl::IsCancelled(asked->status)) {
        EXPECT_EQ(asked->status, absl::ResourceExhaustedError("full"));
        EXPECT_EQ(asked->pushback.delay, absl::Milliseconds(7));
      }
    }
  }
  EXPECT_GT(whole, 3000);
}

// The same with streams that break at a random moment.
TEST(SessionStateTest, WhereverItBreaksEachRequestEndsOnce) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Wires wires(1 + static_cast<int>(random() % 4), seed);
    wires.peer.result_chunk_bytes = 1 + random() % 20;
    std::vector<std::shared_ptr<Asked>> all;
    for (int i = 0; i < 5; ++i) {
      all.push_back(Ask(1 + random() % 9, 1 + random() % 9, 1 + random() % 9, random));
      wires.Start(RequestOf(all.back(), 1 + random() % 30));
    }
    for (std::uint64_t steps = random() % 200; steps > 0; --steps) wires.Step();
    wires.EndAll(absl::UnavailableError("gone"));
    EXPECT_TRUE(wires.cancelled);
    EXPECT_FALSE(wires.state.accepting());
    wires.Run();  // what was under way
    for (const auto& asked : all) {
      EXPECT_EQ(asked->ends, 1);
      if (asked->status.ok()) {
        EXPECT_EQ(asked->result, asked->product);
      } else {
        EXPECT_EQ(asked->status, absl::UnavailableError("gone"));
      }
    }
  }
}

TEST(SessionStateTest, ASmallRequestIsOneMessageAndALargeOneWaits) {
  std::mt19937_64 random(1);
  Wires wires(1, 1);
  const auto small = Ask(4, 4, 4, random);
  const auto large = Ask(4, 4, 5, random);
  wires.Start(RequestOf(small, 32));
  v1::MatmulStreamRequest begin = Written(wires.writing.at(0));
  EXPECT_FALSE(begin.begin().await_accepted());
  EXPECT_EQ(begin.begin().payload_size(), 2);
  EXPECT_EQ(begin.begin().payload(1).data(), small->matmul->planes[1].bytes.view());
  EXPECT_EQ(begin.begin().header().timeout_us(), 0U);
  wires.FinishWrite(0);
  wires.Start(RequestOf(large, 32, absl::UnixEpoch() + absl::Microseconds(1500)));
  begin = Written(wires.writing.at(0));
  EXPECT_TRUE(begin.begin().await_accepted());
  EXPECT_EQ(begin.begin().payload_size(), 0);
  EXPECT_EQ(begin.begin().header().timeout_us(), 1500U);
  wires.Run();
  EXPECT_EQ(small->result, small->product);
  EXPECT_EQ(large->result, large->product);
}

TEST(SessionStateTest, SmallRequestsThatWaitShareAMessageWithAServerThatSendsBatches) {
  std::mt19937_64 random(1);
  for (const bool sends_batches : {false, true}) {
    SessionState state(1);
    if (sends_batches) state.ReceivesBatches();
    std::vector<Todo> todos;
    for (int i = 0; i < 100; ++i) {
      std::uint64_t id = 0;
      todos.push_back(state.Start(RequestOf(Ask(3, 4, 5, random), 1 << 20), &id));
    }
    // The first goes at once, and the others wait for its write.
    ASSERT_EQ(todos[0].writes.size(), 1u);
    EXPECT_TRUE(Written(todos[0].writes[0]).has_begin());
    const Todo next = state.Written(0);
    ASSERT_EQ(next.writes.size(), 1u);
    const v1::MatmulStreamRequest message = Written(next.writes[0]);
    if (!sends_batches) {
      EXPECT_EQ(message.begin().request_id(), 2u);
      continue;
    }
    ASSERT_EQ(message.batch().begins_size(), 64);
    for (int i = 0; i < 64; ++i) {
      const auto& begin = message.batch().begins(i);
      EXPECT_EQ(begin.request_id(), static_cast<std::uint64_t>(i) + 2);
      EXPECT_TRUE(begin.accepts_batches());
      EXPECT_EQ(begin.payload_size(), 2);
    }
    const Todo last = state.Written(0);
    EXPECT_EQ(Written(last.writes[0]).batch().begins_size(), 35);
  }
}

TEST(SessionStateTest, ABatchHasAboutAMebibyteAtMost) {
  std::mt19937_64 random(1);
  SessionState state(1);
  state.ReceivesBatches();
  for (int i = 0; i < 12; ++i) {
    std::uint64_t id = 0;
    state.Start(RequestOf(Ask(1, 1, 150000, random), 1 << 20), &id);
  }
  EXPECT_EQ(Written(state.Written(0).writes[0]).batch().begins_size(), 4);
}

TEST(SessionStateTest, WhatMayGoUnaskedAsksOnceOneWasRefused) {
  std::mt19937_64 random(1);
  Wires wires(1, 1);
  int refusals = 0;
  wires.peer.refuse = [&refusals](const auto&) {
    v1::MatmulStreamResponse::Finished refusal;
    refusal.set_code(8);
    return --refusals >= 0 ? std::optional(refusal) : std::nullopt;
  };
  const auto start = [&] {
    const auto asked = Ask(8, 8, 8, random);  // 128 bytes
    StreamRequest request = RequestOf(asked, 32);
    request.unasked_bytes = 128;
    wires.Start(std::move(request));
    const v1::MatmulStreamRequest begin = Written(wires.writing.at(0));
    EXPECT_EQ(begin.begin().payload_size(), begin.begin().await_accepted() ? 0 : 2);
    wires.Run();
    return std::make_pair(asked, begin.begin().await_accepted());
  };
  auto [first, first_awaits] = start();
  EXPECT_FALSE(first_awaits);
  EXPECT_EQ(first->result, first->product);
  refusals = 2;
  EXPECT_FALSE(start().second);
  const std::uint64_t sent = wires.peer.payload_bytes();
  auto [refused, refused_awaits] = start();
  EXPECT_TRUE(refused_awaits);
  EXPECT_TRUE(absl::IsResourceExhausted(refused->status));
  EXPECT_EQ(wires.peer.payload_bytes(), sent);
  auto [accepted, accepted_awaits] = start();
  EXPECT_TRUE(accepted_awaits);
  EXPECT_EQ(accepted->result, accepted->product);
  EXPECT_FALSE(start().second);
  EXPECT_THAT(wires.peer.faults(), IsEmpty());
}

TEST(SessionStateTest, OverSeveralStreamsAllThatIsLargeAsks) {
  std::mt19937_64 random(1);
  Wires wires(2, 1);
  const auto asked = Ask(8, 8, 8, random);
  StreamRequest request = RequestOf(asked, 32);
  request.unasked_bytes = 128;
  wires.Start(std::move(request));
  wires.FinishWrite(0);  // Open
  EXPECT_TRUE(Written(wires.writing.at(0)).begin().await_accepted());
  wires.Run();
  EXPECT_EQ(asked->result, asked->product);
  EXPECT_THAT(wires.peer.faults(), IsEmpty());
}

TEST(SessionStateTest, ARefusedHeaderCostsNoPayload) {
  std::mt19937_64 random(1);
  Wires wires(3, 1);
  wires.peer.refuse = [](const auto&) {
    v1::MatmulStreamResponse::Finished refusal;
    refusal.set_code(3);
    refusal.set_message("rows 0");
    return std::optional(refusal);
  };
  const auto asked = Ask(20, 20, 20, random);
  wires.Start(RequestOf(asked, 100));
  wires.Run();
  EXPECT_EQ(asked->status, absl::InvalidArgumentError("rows 0"));
  EXPECT_EQ(wires.peer.payload_bytes(), 0U);
}

TEST(SessionStateTest, ChunksGoToWhicheverStreamIsFree) {
  std::mt19937_64 random(1);
  Wires wires(2, 1);
  const auto asked = Ask(32, 32, 32, random);
  wires.Start(RequestOf(asked, 64));
  // Everything but the first stream's chunks moves.
  const auto let_all_but_the_first_write = [&] {
    for (bool moved = true; moved;) {
      moved = false;
      for (const int stream : {0, 1}) {
        if (wires.peer.has_to_send(stream)) wires.Deliver(stream), moved = true;
      }
      if (wires.writing.count(1) > 0) wires.FinishWrite(1), moved = true;
      if (wires.writing.count(0) > 0 && wires.writing.at(0).kind != Outgoing::Kind::kChunk) {
        wires.FinishWrite(0), moved = true;
      }
    }
  };
  let_all_but_the_first_write();
  // All of it but the one chunk that the first has taken.
  EXPECT_EQ(wires.peer.payload_bytes(), 2U * 32 * 32 - 64);
  EXPECT_EQ(wires.writing.at(0).bytes, 64U);
  wires.Run();
  EXPECT_EQ(asked->result, asked->product);
}

TEST(SessionStateTest, FewLargeRequestsWaitForTheirPayloadAndSmallOnesPassThem) {
  std::mt19937_64 random(1);
  Wires wires(1, 1);
  std::vector<std::shared_ptr<Asked>> large;
  for (int i = 0; i < 20; ++i) {
    large.push_back(Ask(8, 8, 8, random));
    wires.Start(RequestOf(large.back(), 16));
  }
  // No answer comes, so none is accepted.
  while (wires.writing.count(0) > 0) wires.FinishWrite(0);
  EXPECT_EQ(wires.peer.begins(), 4);
  const auto small = Ask(2, 2, 2, random);
  wires.Start(RequestOf(small, 16));
  wires.FinishWrite(0);
  EXPECT_EQ(wires.peer.begins(), 5);
  wires.Run();
  EXPECT_EQ(small->result, small->product);
  for (const auto& asked : large) EXPECT_EQ(asked->result, asked->product);
}

TEST(SessionStateTest, ADeadlineEndsTheRequestAndTellsTheServer) {
  std::mt19937_64 random(1);
  Wires wires(1, 1);
  wires.peer.hold_begins = StreamPeer::kHoldAll;
  const absl::Time first = absl::UnixEpoch() + absl::Seconds(1);
  const absl::Time second = absl::UnixEpoch() + absl::Seconds(2);
  const auto late = Ask(2, 2, 2, random);
  const auto later = Ask(2, 2, 2, random);
  wires.Start(RequestOf(later, 64, second));
  wires.Start(RequestOf(late, 64, first));
  EXPECT_THAT(wires.wakes, ::testing::ElementsAre(second, first));
  wires.Run();
  wires.wakes.clear();
  wires.Do(wires.state.Wake(first));
  EXPECT_EQ(late->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(later->ends, 0);
  EXPECT_THAT(wires.wakes, ::testing::ElementsAre(second));
  wires.Run();
  EXPECT_EQ(wires.peer.cancels(), 1);
  EXPECT_EQ(wires.peer.in_flight(), 1U);
  wires.Do(wires.state.Wake(second));
  wires.Do(wires.state.Wake(second));  // the alarm that was asked for first
  EXPECT_EQ(later->ends, 1);
}

TEST(SessionStateTest, WhatComesAfterARequestsEndIsDropped) {
  std::mt19937_64 random(1);
  Wires wires(1, 1);
  wires.peer.small_results_in_finished = false;
  wires.peer.result_chunk_bytes = 1;
  const auto asked = Ask(4, 4, 1, random);
  const std::uint64_t id = wires.Start(RequestOf(asked, 64));
  wires.FinishWrite(0);
  wires.Deliver(0);
  wires.Deliver(0);
  wires.Do(wires.state.Cancel(id));
  EXPECT_EQ(asked->status.code(), absl::StatusCode::kCancelled);
  wires.Run();
  EXPECT_EQ(asked->ends, 1);
  EXPECT_TRUE(wires.state.accepting());
}

TEST(SessionStateTest, ADrainingServersSessionTakesNoMoreAndEndsWithItsLastRequest) {
  std::mt19937_64 random(1);
  Wires wires(1, 1);
  const auto good = Ask(4, 4, 4, random);
  const auto refused = Ask(4, 4, 4, random);
  wires.Start(RequestOf(good, 8));
  wires.FinishWrite(0);
  wires.Deliver(0);
  wires.peer.refuse = [](const auto&) {
    v1::MatmulStreamResponse::Finished refusal;
    refusal.set_code(14);
    return std::optional(refusal);
  };
  wires.Start(RequestOf(refused, 64));
  while (refused->ends == 0) wires.Step();
  EXPECT_EQ(refused->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(wires.state.accepting());
  wires.Run();
  EXPECT_EQ(good->result, good->product);
  EXPECT_TRUE(wires.cancelled);
}

TEST(SessionStateTest, SaysThatMoreStreamsWereRefused) {
  std::mt19937_64 random(1);
  Wires wires(2, 1);
  const auto asked = Ask(4, 4, 4, random);
  wires.Start(RequestOf(asked, 8));
  wires.Do(wires.state.Ended(1, absl::NotFoundError("no such session")));
  wires.Do(wires.state.Ended(0, absl::CancelledError("")));
  EXPECT_TRUE(wires.state.refused_streams());
  EXPECT_EQ(asked->status.code(), absl::StatusCode::kUnavailable);
}

// A server that lies, one message at a time, to a request for 2 x 2 int8 over two streams.
class LyingServer : public ::testing::Test {
 protected:
  void SetUp() override {
    wires_.peer.hold_begins = StreamPeer::kHoldAll;
    id_ = wires_.Start(RequestOf(asked_, 64));
    other_ = wires_.Start(RequestOf(bystander_, 64));
    wires_.Run();
  }

  v1::MatmulStreamResponse Finished(bool with_payload = false) const {
    v1::MatmulStreamResponse message;
    v1::MatmulStreamResponse::Finished& finished = *message.mutable_finished();
    finished.set_request_id(id_);
    finished.mutable_d()->set_type(v1::INT8);
    finished.mutable_d()->set_rows(2);
    finished.mutable_d()->set_columns(2);
    if (with_payload) *finished.add_payload() = Chunk(0, "abcd").chunk();
    return message;
  }
  v1::MatmulStreamResponse Chunk(std::uint64_t offset, const std::string& data) const {
    v1::MatmulStreamResponse message;
    v1::Chunk& chunk = *message.mutable_chunk();
    chunk.set_request_id(id_);
    chunk.set_operand(v1::D);
    chunk.set_offset_bytes(offset);
    chunk.set_data(data);
    return message;
  }
  void Send(const v1::MatmulStreamResponse& message, int stream = 0) {
    wires_.Do(wires_.state.Received(stream, Answer(message)));
    while (!wires_.copies.empty()) wires_.Copy(0);
  }
  // The one request fails and the other is left alone.
  void ExpectInternal(const std::string& message) {
    EXPECT_EQ(asked_->ends, 1);
    EXPECT_EQ(asked_->status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(asked_->status.message()), HasSubstr(message));
    EXPECT_EQ(bystander_->ends, 0);
    EXPECT_TRUE(wires_.state.accepting());
  }
  void ExpectBroken(const std::string& message) {
    EXPECT_TRUE(wires_.cancelled);
    wires_.EndAll(absl::CancelledError(""));
    EXPECT_EQ(asked_->status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(asked_->status.message()), HasSubstr(message));
    EXPECT_EQ(bystander_->status, asked_->status);
  }

  std::mt19937_64 random_{1};
  Wires wires_{2, 1};
  std::shared_ptr<Asked> asked_ = Ask(2, 2, 2, random_);
  std::shared_ptr<Asked> bystander_ = Ask(2, 2, 2, random_);
  std::uint64_t id_ = 0;
  std::uint64_t other_ = 0;
};

TEST_F(LyingServer, TheTruthPasses) {
  Send(Chunk(2, "cd"), 1);
  Send(Finished());
  Send(Chunk(0, ""), 1);
  Send(Chunk(0, "ab"));
  EXPECT_EQ(asked_->result, "abcd");
}

TEST_F(LyingServer, Overlap) {
  Send(Finished());
  Send(Chunk(0, "abc"));
  Send(Chunk(2, "cd"), 1);
  ExpectInternal("a chunk of 2 bytes at byte 2 holds some that came before");
}

TEST_F(LyingServer, OverlapOfWhatCameEarly) {
  Send(Chunk(0, "abc"), 1);
  Send(Chunk(2, "cd"), 1);
  Send(Finished());
  ExpectInternal("holds some that came before");
}

TEST_F(LyingServer, BeyondThePlane) {
  Send(Finished());
  Send(Chunk(3, "de"));
  ExpectInternal("reaches beyond D");
}

TEST_F(LyingServer, BeyondEveryPlane) {
  Send(Finished());
  Send(Chunk(UINT64_MAX, "de"));
  ExpectInternal("at byte 18446744073709551615 reaches beyond D");
}

TEST_F(LyingServer, EndlessEarlyChunks) {
  // A result has 4 elements of 8 bytes at most.
  for (int i = 0; i < 8; ++i) Send(Chunk(0, "abcd"), 1);
  EXPECT_EQ(asked_->ends, 0);
  Send(Chunk(0, "a"), 1);
  ExpectInternal("more bytes came than any result has");
}

TEST_F(LyingServer, Missing) {
  v1::MatmulStreamResponse message = Finished(true);
  message.mutable_finished()->mutable_payload(0)->set_data("abc");
  Send(message);
  ExpectInternal("takes 4 bytes, but 3 came");
}

TEST_F(LyingServer, PayloadAndChunks) {
  Send(Chunk(0, "abcd"), 1);
  Send(Finished(true));
  ExpectInternal("in Finished and in chunks");
}

TEST_F(LyingServer, AnotherShape) {
  v1::MatmulStreamResponse message = Finished();
  message.mutable_finished()->mutable_d()->set_columns(3);
  Send(message);
  ExpectInternal("D is 2 x 3 int8 row-major, but 2 x 2 int8 row-major was asked for");
}

TEST_F(LyingServer, AHugeLeadingDimensionAllocatesNothing) {
  v1::MatmulStreamResponse message = Finished();
  message.mutable_finished()->mutable_d()->set_leading_dimension(1ULL << 50);
  Send(message);
  ExpectInternal("leading dimension 1125899906842624, which was not asked for");
}

TEST_F(LyingServer, AnotherOperand) {
  Send(Finished());
  v1::MatmulStreamResponse message = Chunk(0, "abcd");
  message.mutable_chunk()->set_operand(v1::A);
  Send(message);
  ExpectInternal("something else than the data of D");
}

TEST_F(LyingServer, FinishedTwice) {
  Send(Finished());
  Send(Finished());
  ExpectInternal("it finished twice");
}

TEST_F(LyingServer, AcceptedUnasked) {
  v1::MatmulStreamResponse message;
  message.mutable_accepted()->set_request_id(id_);
  Send(message);
  ExpectInternal("accepted where nothing waits");
}

TEST_F(LyingServer, NoSuchRequest) {
  v1::MatmulStreamResponse message = Chunk(0, "abcd");
  message.mutable_chunk()->set_request_id(99);
  Send(message, 1);
  ExpectBroken("there is no request 99");
}

TEST_F(LyingServer, OpenedTwice) {
  v1::MatmulStreamResponse message;
  message.mutable_opened()->set_session("x");
  Send(message);
  ExpectBroken("Opened where nothing is to be opened");
}

TEST_F(LyingServer, JoinedTwice) {
  v1::MatmulStreamResponse message;
  message.mutable_joined();
  Send(message, 1);
  ExpectBroken("Joined where nothing is to be joined");
}

TEST_F(LyingServer, NoEvent) {
  Send(v1::MatmulStreamResponse());
  ExpectBroken("an event is unknown here");
}

TEST_F(LyingServer, Garbage) {
  wires_.Do(wires_.state.ReceivedGarbage());
  ExpectBroken("it is no MatmulStreamResponse");
}

TEST_F(LyingServer, AnEndInMidRequestIsUnavailable) {
  wires_.EndAll(absl::OkStatus());
  EXPECT_EQ(asked_->status,
            absl::UnavailableError("the server ended the stream before its requests"));
}

TEST_F(LyingServer, TheStreamThatKnowsWhySaysIt) {
  wires_.Do(wires_.state.Ended(1, absl::CancelledError("another stream broke")));
  wires_.Do(wires_.state.Ended(0, absl::InternalError("incident 7")));
  EXPECT_EQ(asked_->status, absl::InternalError("incident 7"));
}

TEST_F(LyingServer, FinishedBeforeItsPayloadWasSent) {
  const auto large = Ask(9, 9, 9, random_);
  const std::uint64_t id = wires_.Start(RequestOf(large, 16));
  wires_.FinishWrite(0);
  v1::MatmulStreamResponse message = Finished();
  message.mutable_finished()->set_request_id(id);
  Send(message);
  EXPECT_THAT(std::string(large->status.message()), HasSubstr("before its payload was sent"));
}

TEST_F(LyingServer, CodesThatNobodyKnowsAreUnknown) {
  v1::MatmulStreamResponse message = Finished();
  message.mutable_finished()->set_code(77);
  Send(message);
  EXPECT_EQ(asked_->status.code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace gemmd::client
