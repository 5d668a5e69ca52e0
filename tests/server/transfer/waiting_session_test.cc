// Requests of a session that wait for memory.
#include <memory>
#include <variant>

#include "gtest/gtest.h"
#include "server/transfer/matmul_session.h"
#include "tests/server/transfer/session_events.h"
#include "tests/server/transfer/session_play.h"

namespace gemmd {
namespace {

using testing::Header;
using testing::Next;
using testing::Receive;
using testing::Server;

// A session with a request that waits: another one has the memory.
class WaitingSession : public ::testing::Test {
 protected:
  // A product of 8 takes 768 bytes and 1024 of workspace.
  WaitingSession() : server_(2000, true), session_(server_.NewSession()) {
    EXPECT_TRUE(session_->AddStream([] {}).ok());
    EXPECT_TRUE(session_->Begin(Header(1, 8, 0)).ok());
  }

  // The holder of the memory ends, and the room looks.
  void Free() {
    session_->Cancel(1);
    EXPECT_EQ(std::get<RequestFinished>(*Next(session_.get())).request_id, 1u);
    server_.room->Look();
  }

  Server server_;
  std::shared_ptr<MatmulSession> session_;
};

TEST_F(WaitingSession, ARequestThatWaitedReceivesWhatCameWithItsHeader) {
  RequestHeader header = Header(2, 8, 0);
  header.await_accepted = true;
  testing::AddPayload(OperandName::kA, 256, &header);
  ASSERT_TRUE(session_->Begin(header).ok());
  EXPECT_FALSE(Next(session_.get()).has_value());
  EXPECT_EQ(server_.room->waiting(), 1u);
  Free();
  EXPECT_EQ(std::get<RequestAccepted>(*Next(session_.get())).request_id, 2u);
  Receive(session_.get(), 2, OperandName::kB, 0, 256);
  server_.device.FinishOne();
  EXPECT_TRUE(std::get<RequestFinished>(*Next(session_.get())).status.ok());
}

TEST_F(WaitingSession, OneWithAllOfItsPayloadRunsAtOnceAlsoAfterTheInputsEnd) {
  RequestHeader header = Header(2, 8, 0);
  testing::AddPayload(OperandName::kA, 256, &header);
  testing::AddPayload(OperandName::kB, 256, &header);
  ASSERT_TRUE(session_->Begin(header).ok());
  session_->EndInput(0);
  EXPECT_FALSE(session_->Closing().has_value());
  EXPECT_EQ(std::get<RequestFinished>(*Next(session_.get())).request_id, 1u);
  server_.room->Look();
  server_.device.FinishOne();
  EXPECT_TRUE(std::get<RequestFinished>(*Next(session_.get())).status.ok());
}

TEST_F(WaitingSession, OneThatLacksPayloadWhenTheInputHasEndedIsTold) {
  ASSERT_TRUE(session_->Begin(Header(2, 8, 0)).ok());
  session_->EndInput(0);
  EXPECT_EQ(std::get<RequestFinished>(*Next(session_.get())).request_id, 1u);
  server_.room->Look();
  EXPECT_TRUE(absl::IsInvalidArgument(std::get<RequestFinished>(*Next(session_.get())).status));
}

TEST_F(WaitingSession, PayloadThatComesTooSoonEndsIt) {
  ASSERT_TRUE(session_->Begin(Header(2, 8, 0)).ok());
  Receive(session_.get(), 2, OperandName::kA, 0, 8);
  const auto finished = std::get<RequestFinished>(*Next(session_.get()));
  EXPECT_TRUE(absl::IsResourceExhausted(finished.status));
  EXPECT_NE(finished.status.message().find("await_accepted"), absl::string_view::npos);
  EXPECT_EQ(server_.room->waiting(), 0u);
  EXPECT_EQ(server_.statistics.Read().in_flight, 1u);
}

TEST_F(WaitingSession, ItEndsWhenItIsCancelledOrTheSessionBreaks) {
  ASSERT_TRUE(session_->Begin(Header(2, 8, 0)).ok());
  session_->Cancel(2);
  EXPECT_TRUE(absl::IsCancelled(std::get<RequestFinished>(*Next(session_.get())).status));
  EXPECT_EQ(server_.room->waiting(), 0u);
  ASSERT_TRUE(session_->Begin(Header(3, 8, 0)).ok());
  session_->Break(absl::CancelledError("gone"));
  EXPECT_EQ(server_.room->waiting(), 0u);
  EXPECT_EQ(server_.statistics.Read().in_flight, 0u);
  EXPECT_EQ(server_.statistics.Read().finished.at("CANCELLED"), 3u);
}

// An id is free again once its request has ended; what the old one waited for must not reach the
// new one.
TEST_F(WaitingSession, ItsPayloadIsNotAnotherRequestsOfTheSameId) {
  RequestHeader header = Header(2, 8, 0);
  testing::AddPayload(OperandName::kA, 256, &header);
  ASSERT_TRUE(session_->Begin(header).ok());
  session_->Cancel(2);
  Next(session_.get());
  ASSERT_TRUE(session_->Begin(Header(2, 8, 0)).ok());
  Free();
  Receive(session_.get(), 2, OperandName::kA, 0, 256);
  Receive(session_.get(), 2, OperandName::kB, 0, 256);
  server_.device.FinishOne();
  EXPECT_TRUE(std::get<RequestFinished>(*Next(session_.get())).status.ok());
}

}  // namespace
}  // namespace gemmd
