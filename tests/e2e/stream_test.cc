// MatmulStream of a real server, spoken to with the generated code alone.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using testing::Operands;
using testing::ServerProcess;

// The answer to one request.
struct Answer {
  v1::MatmulStreamResponse::Finished finished;
  std::map<std::uint64_t, std::string> pieces;  // by offset

  void Add(const v1::Chunk& chunk) { pieces[chunk.offset_bytes()] = chunk.data(); }
  std::string d() const {
    std::string bytes;
    for (const auto& [offset, piece] : pieces) {
      EXPECT_EQ(offset, bytes.size());
      bytes += piece;
    }
    return bytes;
  }
};

// One stream, used by one thread for writing and one for reading.
class Stream {
 public:
  explicit Stream(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::Gemm::NewStub(channel)), call_(stub_->MatmulStream(&context_)) {}

  bool Send(const v1::MatmulStreamRequest& event) { return call_->Write(event); }
  bool Read(v1::MatmulStreamResponse* response) { return call_->Read(response); }
  void EndInput() { call_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // Reads what is left, then the status.
  grpc::Status Finish() {
    v1::MatmulStreamResponse rest;
    while (Read(&rest)) {
    }
    return call_->Finish();
  }

  std::string Open() {
    v1::MatmulStreamRequest open;
    open.mutable_open();
    Send(open);
    v1::MatmulStreamResponse opened;
    EXPECT_TRUE(Read(&opened) && opened.has_opened());
    return opened.opened().session();
  }
  void Join(const std::string& session) {
    v1::MatmulStreamRequest join;
    join.mutable_join()->set_session(session);
    Send(join);
    v1::MatmulStreamResponse joined;
    EXPECT_TRUE(Read(&joined) && joined.has_joined());
  }
  void Begin(std::uint64_t id, const v1::MatmulHeader& header, bool await_accepted = false) {
    v1::MatmulStreamRequest begin;
    begin.mutable_begin()->set_request_id(id);
    *begin.mutable_begin()->mutable_header() = header;
    begin.mutable_begin()->set_await_accepted(await_accepted);
    Send(begin);
  }
  void CancelRequest(std::uint64_t id) {
    v1::MatmulStreamRequest cancel;
    cancel.mutable_cancel()->set_request_id(id);
    Send(cancel);
  }

  // The number of answers that came as part of a batch.
  int in_batches() const { return in_batches_; }

  // Reads until the stream ends or `count` requests have ended with all their bytes.
  void ReadAnswers(std::size_t count, std::map<std::uint64_t, Answer>* answers) {
    v1::MatmulStreamResponse response;
    std::map<std::uint64_t, std::uint64_t> missing;
    std::size_t whole = 0;
    while (whole < count && Read(&response)) {
      std::vector<v1::MatmulStreamResponse::Finished> ended;
      if (response.has_finished()) ended = {response.finished()};
      if (response.has_batch()) {
        ended.assign(response.batch().finished().begin(), response.batch().finished().end());
        in_batches_ += static_cast<int>(ended.size());
      }
      for (const v1::MatmulStreamResponse::Finished& finished : ended) {
        Answer& answer = (*answers)[finished.request_id()];
        answer.finished = finished;
        for (const v1::Chunk& chunk : finished.payload()) answer.Add(chunk);
        const bool is_whole = answer.finished.code() != 0 || !answer.pieces.empty();
        if (is_whole) ++whole;
        missing[finished.request_id()] =
            is_whole ? 0 : answer.finished.receipt().payload_bytes_out();
      }
      if (response.has_chunk()) {
        const v1::Chunk& chunk = response.chunk();
        (*answers)[chunk.request_id()].Add(chunk);
        missing[chunk.request_id()] -= chunk.data().size();
        if (missing[chunk.request_id()] == 0) ++whole;
      }
    }
  }

 private:
  std::unique_ptr<v1::Gemm::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::MatmulStreamRequest, v1::MatmulStreamResponse>>
      call_;
  int in_batches_ = 0;
};

// The request's payload as events, in pieces of at most `bytes`.
std::vector<v1::MatmulStreamRequest> Chunks(std::uint64_t id, const v1::MatmulRequest& request,
                                            std::size_t bytes) {
  std::vector<v1::MatmulStreamRequest> events;
  for (const v1::Chunk& plane : request.payload()) {
    for (std::size_t begin = 0; begin < plane.data().size(); begin += bytes) {
      v1::Chunk& chunk = *events.emplace_back().mutable_chunk();
      chunk.set_request_id(id);
      chunk.set_operand(plane.operand());
      chunk.set_plane(plane.plane());
      chunk.set_offset_bytes(begin);
      chunk.set_data(plane.data().substr(begin, bytes));
    }
  }
  return events;
}

class StreamTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = {"--cpu.threads=2"};
    all.insert(all.end(), flags.begin(), flags.end());
    server_ = std::make_unique<ServerProcess>(all);
    channel_ = server_->NewChannel();
    watcher_ = server_->NewChannel();
    Statistics();  // connects
  }

  v1::StatisticsResponse Statistics() const {
    grpc::ClientContext context;
    v1::StatisticsResponse response;
    const grpc::Status status = v1::Admin::NewStub(watcher_)->Statistics(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  void AwaitFreeMemory() const {
    while (Statistics().reserved_bytes() != 0) {
    }
  }

  std::string UnaryResult(const v1::MatmulRequest& request) const {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    const grpc::Status status = v1::Gemm::NewStub(channel_)->Matmul(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.payload(0).data();
  }

  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  // A connection of its own, made before any other: the server closes one that is too slow with all
  // of its calls, and then takes no other from its address for a second.
  std::shared_ptr<grpc::Channel> watcher_;
};

v1::MatmulRequest SomeRequest(std::int64_t m, std::int64_t n, std::int64_t k,
                              std::uint32_t seed = 1) {
  const Problem problem = MakeProblem(m, n, k, DataType::kF32, DataType::kF32);
  return testing::MakeRequest(problem, Operands(problem, testing::Distribution::kNormal, seed));
}

TEST_F(StreamTest, ManyRequestsInPiecesInAnyOrderGiveTheBitsOfUnaryCalls) {
  Start({"--limits.chunk-bytes=4096"});
  std::mt19937 random(7);
  Stream stream(channel_);
  std::vector<v1::MatmulRequest> requests;
  std::vector<v1::MatmulStreamRequest> events;
  for (std::uint64_t id = 0; id < 40; ++id) {
    requests.push_back(SomeRequest(1 + random() % 90, 1 + random() % 90, 1 + random() % 90,
                                   static_cast<std::uint32_t>(id)));
    stream.Begin(id, requests.back().header());
    const auto chunks = Chunks(id, requests.back(), 1 + random() % 9000);
    events.insert(events.end(), chunks.begin(), chunks.end());
  }
  std::shuffle(events.begin(), events.end(), random);
  for (const auto& event : events) stream.Send(event);
  std::map<std::uint64_t, Answer> answers;
  stream.ReadAnswers(requests.size(), &answers);
  for (std::uint64_t id = 0; id < requests.size(); ++id) {
    ASSERT_EQ(answers[id].finished.code(), 0u) << answers[id].finished.message();
    EXPECT_EQ(answers[id].d(), UnaryResult(requests[id])) << id;
    EXPECT_EQ(answers[id].finished.receipt().kernel(), "cpu/panel_f32");
  }
  stream.EndInput();
  EXPECT_TRUE(stream.Finish().ok());
  AwaitFreeMemory();
}

TEST_F(StreamTest, WhatOneMessageIsAnsweredAtOnceIsOneMessage) {
  Start();
  Stream stream(channel_);
  v1::MatmulStreamRequest batch;
  for (std::uint32_t id = 0; id < 10; ++id) {
    v1::MatmulStreamRequest::Begin& begin = *batch.mutable_batch()->add_begins();
    begin.set_request_id(id);
    begin.set_accepts_batches(true);  // and no operands
  }
  stream.Send(batch);
  v1::MatmulStreamResponse answer;
  ASSERT_TRUE(stream.Read(&answer));
  ASSERT_EQ(answer.batch().finished_size(), 10);
  for (const auto& finished : answer.batch().finished()) EXPECT_NE(finished.code(), 0u);
  stream.EndInput();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(StreamTest, ManyRequestsInOneMessage) {
  Start();
  std::vector<v1::MatmulRequest> requests;
  for (const bool accepts : {false, true}) {
    Stream stream(channel_);
    v1::MatmulStreamRequest batch;
    requests.clear();
    for (std::uint32_t id = 0; id < 60; ++id) {
      requests.push_back(SomeRequest(1 + id % 7, 30, 40, id));
      v1::MatmulStreamRequest::Begin& begin = *batch.mutable_batch()->add_begins();
      begin.set_request_id(id);
      begin.set_accepts_batches(accepts);
      *begin.mutable_header() = requests.back().header();
      *begin.mutable_payload() = requests.back().payload();
    }
    stream.Send(batch);
    std::map<std::uint64_t, Answer> answers;
    stream.ReadAnswers(requests.size(), &answers);
    for (std::uint64_t id = 0; id < requests.size(); ++id) {
      ASSERT_EQ(answers[id].finished.code(), 0u) << answers[id].finished.message();
      EXPECT_EQ(answers[id].d(), UnaryResult(requests[id])) << id;
    }
    // The number of answers in batches is a matter of time.
    if (!accepts) {
      EXPECT_EQ(stream.in_batches(), 0);
    }
    stream.EndInput();
    EXPECT_TRUE(stream.Finish().ok());
  }
  AwaitFreeMemory();
}

// The server reads on while it copies, so the end of the input may come before the copy's.
TEST_F(StreamTest, TheInputsEndWaitsForTheLastChunksCopy) {
  Start();
  const v1::MatmulRequest request = SomeRequest(16, 900, 900);
  const std::string expected = UnaryResult(request);
  constexpr std::size_t kWholePlanes = 4 << 20;
  for (int i = 0; i < 20; ++i) {
    Stream stream(channel_);
    stream.Begin(1, request.header());
    for (const auto& event : Chunks(1, request, kWholePlanes)) ASSERT_TRUE(stream.Send(event));
    stream.EndInput();
    std::map<std::uint64_t, Answer> answers;
    stream.ReadAnswers(1, &answers);
    ASSERT_EQ(answers[1].finished.code(), 0u) << answers[1].finished.message();
    EXPECT_EQ(answers[1].d(), expected);
    EXPECT_TRUE(stream.Finish().ok());
  }
  AwaitFreeMemory();
}

TEST_F(StreamTest, ChunksTravelOverEveryStreamOfASession) {
  Start({"--limits.chunk-bytes=65536"});
  Stream first(channel_);
  const std::string session = first.Open();
  std::vector<std::unique_ptr<Stream>> joined;
  for (int i = 0; i < 3; ++i) {
    joined.push_back(std::make_unique<Stream>(server_->NewChannel()));
    joined.back()->Join(session);
  }
  const v1::MatmulRequest request = SomeRequest(600, 700, 500);
  first.Begin(1, request.header(), true);
  v1::MatmulStreamResponse accepted;
  ASSERT_TRUE(first.Read(&accepted) && accepted.has_accepted());
  const auto chunks = Chunks(1, request, 50000);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    ASSERT_TRUE((i % 4 == 3 ? first : *joined[i % 4]).Send(chunks[i]));
  }
  first.EndInput();
  for (auto& stream : joined) stream->EndInput();
  std::vector<std::map<std::uint64_t, Answer>> parts(4);
  std::vector<std::thread> readers;
  for (std::size_t i = 0; i < 4; ++i) {
    readers.emplace_back([&, i] {
      Stream& stream = i == 3 ? first : *joined[i];
      stream.ReadAnswers(~std::size_t{0}, &parts[i]);
      EXPECT_TRUE(stream.Finish().ok());
    });
  }
  for (std::thread& reader : readers) reader.join();
  Answer whole = parts[3][1];
  for (std::size_t i = 0; i < 3; ++i) {
    for (const auto& [offset, piece] : parts[i][1].pieces) whole.pieces[offset] = piece;
  }
  EXPECT_EQ(whole.finished.code(), 0u) << whole.finished.message();
  EXPECT_EQ(whole.d(), UnaryResult(request));
}

TEST_F(StreamTest, OneRequestsFaultIsItsOwn) {
  Start();
  Stream stream(channel_);
  v1::MatmulRequest bad_header = SomeRequest(4, 5, 6);
  bad_header.mutable_header()->set_alpha(NAN);
  stream.Begin(1, bad_header.header());
  for (const auto& chunk : Chunks(1, bad_header, 1000)) stream.Send(chunk);

  const v1::MatmulRequest twice = SomeRequest(4, 5, 6);
  stream.Begin(2, twice.header());
  stream.Send(Chunks(2, twice, 1000)[0]);
  stream.Send(Chunks(2, twice, 1000)[0]);

  v1::MatmulRequest unknown_type = twice;
  unknown_type.mutable_header()->mutable_a()->mutable_data()->set_type(v1::DataType(77));
  stream.Begin(3, unknown_type.header());

  v1::MatmulRequest late = twice;
  late.mutable_header()->set_timeout_us(20000);
  stream.Begin(4, late.header());

  stream.Begin(5, twice.header());
  stream.CancelRequest(5);

  std::map<std::uint64_t, Answer> answers;
  stream.ReadAnswers(5, &answers);
  EXPECT_EQ(answers[1].finished.message(), "alpha is nan; it must be finite");
  EXPECT_EQ(answers[2].finished.message(),
            "payload of a: bytes 0 to 96 overlap with an earlier chunk; chunks must cover the "
            "plane exactly once");
  EXPECT_EQ(answers[3].finished.message(),
            "a.data.type is 77; it must be a value of the enum in gemmd.v1");
  EXPECT_EQ(answers[4].finished.code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(answers[4].finished.message(), "the deadline passed before the payload was there");
  EXPECT_EQ(answers[5].finished.code(), StatusCode::CANCELLED);

  // All in one message, and what never ends for lack of bytes.
  v1::MatmulStreamRequest small;
  small.mutable_begin()->set_request_id(6);
  *small.mutable_begin()->mutable_header() = twice.header();
  *small.mutable_begin()->mutable_payload() = twice.payload();
  stream.Send(small);
  stream.ReadAnswers(1, &answers);
  EXPECT_EQ(answers[6].d(), UnaryResult(twice));
  stream.Begin(7, twice.header());
  stream.EndInput();
  stream.ReadAnswers(1, &answers);
  EXPECT_EQ(answers[7].finished.message(),
            "payload of a has 0 bytes, and the next byte is 0; its plane has 96");
  EXPECT_TRUE(stream.Finish().ok());
  AwaitFreeMemory();
}

TEST_F(StreamTest, BreachesOfTheProtocolEndTheStream) {
  Start();
  const v1::MatmulRequest request = SomeRequest(4, 5, 6);
  const auto status_of = [this](auto breach) {
    Stream stream(channel_);
    breach(&stream);
    return stream.Finish();
  };
  grpc::Status status = status_of([](Stream* s) { s->Send({}); });
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(
      status.error_message(),
      "the message has no event: one of begin, cancel, open, join, batch and chunk must be set");
  status = status_of([](Stream* s) {
    v1::MatmulStreamRequest batch;
    batch.mutable_batch();
    s->Send(batch);
  });
  EXPECT_EQ(status.error_message(), "batch.begins has 0 entries; it must have 1 to 64");
  status = status_of([](Stream* s) {
    v1::MatmulStreamRequest batch;
    for (int i = 0; i < 65; ++i) batch.mutable_batch()->add_begins();
    s->Send(batch);
  });
  EXPECT_EQ(status.error_message(), "batch.begins has 65 entries; it must have 1 to 64");
  status = status_of([&](Stream* s) {
    s->Begin(9, request.header());
    s->Begin(9, request.header());
  });
  EXPECT_EQ(status.error_message(), "begin.request_id is 9; a request with this id is in flight");
  status = status_of([&](Stream* s) {
    s->Begin(9, request.header());
    v1::MatmulStreamRequest open;
    open.mutable_open();
    s->Send(open);
  });
  EXPECT_EQ(status.error_message(), "open must be the stream's first event");
  status = status_of([](Stream* s) {
    v1::MatmulStreamRequest join;
    join.mutable_join()->set_session("nobody's");
    s->Send(join);
  });
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);

  // An error that breaks one stream of a session ends the others.
  Stream first(channel_);
  Stream second(channel_);
  second.Join(first.Open());
  second.Begin(1, request.header());
  EXPECT_EQ(second.Finish().error_message(), "a stream that joined a session sends chunks alone");
  EXPECT_FALSE(first.Finish().ok());
  Stream third(channel_);
  Stream fourth(channel_);
  fourth.Join(third.Open());
  third.Begin(1, request.header());
  fourth.Cancel();
  EXPECT_EQ(third.Finish().error_message(), "another stream of the session broke");
  EXPECT_EQ(fourth.Finish().error_code(), StatusCode::CANCELLED);
  AwaitFreeMemory();
}

TEST_F(StreamTest, RequestsOfAStreamThatIsCancelledAreCountedAsThat) {
  Start();
  Stream stream(channel_);
  stream.Begin(1, SomeRequest(700, 700, 2).header(), true);
  v1::MatmulStreamResponse accepted;
  ASSERT_TRUE(stream.Read(&accepted) && accepted.has_accepted());
  stream.Cancel();
  EXPECT_EQ(stream.Finish().error_code(), StatusCode::CANCELLED);
  while (Statistics().in_flight_requests() > 0) {
  }
  EXPECT_EQ(Statistics().finished_requests().count("INVALID_ARGUMENT"), 0u);
  EXPECT_EQ(Statistics().finished_requests().at("CANCELLED"), 1u);
  AwaitFreeMemory();
}

TEST_F(StreamTest, AClientThatDoesNotReadIsEndedAndItsMemoryFreed) {
  Start({"--limits.stall-timeout-ms=200", "--limits.min-bytes-per-second=10000000"});
  Stream stream(channel_);
  const v1::MatmulRequest request = SomeRequest(700, 700, 2);
  std::uint64_t id = 0;
  // More than any window takes; at some point the server ends the stream.
  while (true) {
    v1::MatmulStreamRequest begin;
    begin.mutable_begin()->set_request_id(id++);
    *begin.mutable_begin()->mutable_header() = request.header();
    *begin.mutable_begin()->mutable_payload() = request.payload();
    if (!stream.Send(begin)) break;
  }
  EXPECT_FALSE(stream.Finish().ok());
  AwaitFreeMemory();
}

TEST_F(StreamTest, AClientThatOwesPayloadIsTold) {
  Start({"--limits.stall-timeout-ms=100"});
  Stream stream(channel_);
  stream.Begin(1, SomeRequest(700, 700, 2).header());
  std::map<std::uint64_t, Answer> answers;
  stream.ReadAnswers(1, &answers);
  EXPECT_EQ(answers[1].finished.message(),
            "the payload came slower than 16384 bytes per second (limits.min_bytes_per_second) for "
            "more than 100ms (limits.stall_timeout_ms)");
}

TEST_F(StreamTest, TooManyRequestsAreRefusedWithATimeToRetry) {
  Start({"--limits.requests-per-session=2"});
  Stream stream(channel_);
  const v1::MatmulRequest request = SomeRequest(4, 5, 6);
  for (std::uint64_t id = 1; id <= 3; ++id) stream.Begin(id, request.header());
  std::map<std::uint64_t, Answer> answers;
  stream.ReadAnswers(1, &answers);
  EXPECT_EQ(answers[3].finished.code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_GT(answers[3].finished.retry_after_ms(), 0u);
  for (const auto& chunk : Chunks(1, request, 1000)) stream.Send(chunk);
  stream.ReadAnswers(1, &answers);
  EXPECT_EQ(answers[1].d(), UnaryResult(request));
}

TEST_F(StreamTest, ADrainingServerFinishesWhatItHasAndClosesTheStream) {
  Start();
  Stream idle(channel_);
  idle.Open();
  Stream stream(channel_);
  const v1::MatmulRequest request = SomeRequest(2000, 2000, 3000);
  stream.Begin(1, request.header());
  for (const auto& chunk : Chunks(1, request, 1 << 20)) stream.Send(chunk);
  while (Statistics().admitted_requests() == 0) {
  }
  server_->Signal(SIGTERM);
  EXPECT_EQ(idle.Finish().error_message(), "the server is draining: use another replica");
  std::map<std::uint64_t, Answer> answers;
  stream.ReadAnswers(1, &answers);
  EXPECT_EQ(answers[1].finished.code(), 0u);
  EXPECT_EQ(answers[1].d().size(), 2000u * 2000 * 4);
  EXPECT_EQ(stream.Finish().error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_->WaitForExit(), 0);
}

}  // namespace
}  // namespace gemmd
