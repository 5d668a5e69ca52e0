// A session survives a server that does not keep to the contract.
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "client/stream/session_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/session_wires.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::AnswerOf;
using ::gemmd::testing::Ask;
using ::gemmd::testing::Asked;
using ::gemmd::testing::RequestOf;
using ::gemmd::testing::SessionWires;
using ::gemmd::testing::StreamPeer;
using ::testing::HasSubstr;

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
    wires_.Do(wires_.state.Received(stream, AnswerOf(message)));
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
  SessionWires wires_{2, 1};
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
