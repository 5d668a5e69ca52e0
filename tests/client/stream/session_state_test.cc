#include "client/stream/session_state.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/session_wires.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Ask;
using ::gemmd::testing::Asked;
using ::gemmd::testing::RequestOf;
using ::gemmd::testing::SessionWires;
using ::gemmd::testing::StreamPeer;
using ::gemmd::testing::Written;
using ::testing::IsEmpty;

Actions Start(SessionState& state, const std::shared_ptr<Asked>& asked, bool waits = false) {
  std::uint64_t id = 0;
  return state.Start(RequestOf(asked, 1 << 20), &id, waits);
}

// Requests of all sizes, begun, cancelled and refused at random moments, over 1 to 5 streams whose
// messages arrive in any order among them. Each ends once, with its own bytes.
TEST(SessionStateTest, AnyInterleavingGivesEachRequestItsOwnResult) {
  int whole = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    SessionWires wires(1 + static_cast<int>(random() % 5), seed);
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
      const std::uint64_t id = wires.Start(std::move(request), random() % 2 == 0);
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

// Streams break at a random moment while requests are under way.
TEST(SessionStateTest, WhereverItBreaksEachRequestEndsOnce) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    SessionWires wires(1 + static_cast<int>(random() % 4), seed);
    wires.peer.result_chunk_bytes = 1 + random() % 20;
    std::vector<std::shared_ptr<Asked>> all;
    for (int i = 0; i < 5; ++i) {
      all.push_back(Ask(1 + random() % 9, 1 + random() % 9, 1 + random() % 9, random));
      wires.Start(RequestOf(all.back(), 1 + random() % 30), random() % 2 == 0);
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
  SessionWires wires(1, 1);
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
    std::vector<Actions> todos;
    for (int i = 0; i < 100; ++i) todos.push_back(Start(state, Ask(3, 4, 5, random)));
    // The first goes at once, and the others wait for its write.
    ASSERT_EQ(todos[0].writes.size(), 1u);
    EXPECT_TRUE(Written(todos[0].writes[0]).has_begin());
    const Actions next = state.Written(0);
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
    const Actions last = state.Written(0);
    EXPECT_EQ(Written(last.writes[0]).batch().begins_size(), 35);
  }
}

TEST(SessionStateTest, WhatWaitsGoesTogetherOnceItIsFlushed) {
  std::mt19937_64 random(1);
  SessionState state(1);
  state.ReceivesBatches();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Start(state, Ask(3, 4, 5, random), true).writes, IsEmpty());
  }
  const Actions actions = state.Flush();
  ASSERT_EQ(actions.writes.size(), 1u);
  EXPECT_EQ(Written(actions.writes[0]).batch().begins_size(), 3);
  EXPECT_THAT(state.Flush().writes, IsEmpty());
}

TEST(SessionStateTest, ABatchHasAMebibyteOfOperandsAtMost) {
  std::mt19937_64 random(1);
  SessionState state(1);
  state.ReceivesBatches();
  for (int i = 0; i < 12; ++i) Start(state, Ask(1, 1, i == 4 ? 500000 : 150000, random));
  EXPECT_EQ(Written(state.Written(0).writes[0]).batch().begins_size(), 3);
  EXPECT_TRUE(Written(state.Written(0).writes[0]).has_begin());  // the larger one, alone
  EXPECT_EQ(Written(state.Written(0).writes[0]).batch().begins_size(), 3);
}

TEST(SessionStateTest, WhatMayGoUnaskedAsksOnceOneWasRefused) {
  std::mt19937_64 random(1);
  SessionWires wires(1, 1);
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
  SessionWires wires(2, 1);
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
  SessionWires wires(3, 1);
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
  SessionWires wires(2, 1);
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
  SessionWires wires(1, 1);
  // Earlier ones, small and large, are over and count no more.
  for (const std::uint64_t size : {2, 8, 2, 8}) {
    wires.Start(RequestOf(Ask(size, size, size, random), 16));
    wires.Run();
  }
  const int earlier = wires.peer.begins();
  std::vector<std::shared_ptr<Asked>> large;
  for (int i = 0; i < 20; ++i) {
    large.push_back(Ask(8, 8, 8, random));
    wires.Start(RequestOf(large.back(), 16));
  }
  // No answer comes, so none is accepted.
  while (wires.writing.count(0) > 0) wires.FinishWrite(0);
  EXPECT_EQ(wires.peer.begins(), earlier + 4);
  const auto small = Ask(2, 2, 2, random);
  wires.Start(RequestOf(small, 16));
  wires.FinishWrite(0);
  EXPECT_EQ(wires.peer.begins(), earlier + 5);
  wires.Run();
  EXPECT_EQ(small->result, small->product);
  for (const auto& asked : large) EXPECT_EQ(asked->result, asked->product);
}

TEST(SessionStateTest, ADeadlineEndsTheRequestAndTellsTheServer) {
  std::mt19937_64 random(1);
  SessionWires wires(1, 1);
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

// The server has never heard of it.
TEST(SessionStateTest, WhatDidNotBeginIsCancelledWithoutAMessage) {
  std::mt19937_64 random(1);
  for (const bool begins : {false, true}) {
    SessionState state(1);
    Start(state, Ask(3, 4, 5, random));
    if (begins) state.Written(0);
    const auto asked = Ask(3, 4, 5, random);
    ASSERT_EQ(Start(state, asked).writes.size(), begins ? 1u : 0u);
    const Actions cancelled = state.Cancel(2);
    ASSERT_EQ(cancelled.ends.size(), 1u);
    EXPECT_TRUE(absl::IsCancelled(cancelled.ends[0].status));
    EXPECT_EQ(state.Written(0).writes.size(), begins ? 1u : 0u);
  }
}

// An alarm that a nearer deadline overtook rings all the same.
TEST(SessionStateTest, AnAlarmThatIsNoLongerAskedForChangesNothing) {
  std::mt19937_64 random(1);
  SessionWires wires(1, 1);
  wires.peer.hold_begins = StreamPeer::kHoldAll;
  const auto after = [](int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); };
  for (const int seconds : {2, 1, 3}) {
    wires.Start(RequestOf(Ask(2, 2, 2, random), 64, after(seconds)));
  }
  EXPECT_THAT(wires.wakes, ::testing::ElementsAre(after(2), after(1)));
  wires.wakes.clear();
  wires.Do(wires.state.Wake(after(1)));
  wires.Do(wires.state.Wake(after(2)));
  EXPECT_THAT(wires.wakes, ::testing::ElementsAre(after(2), after(3)));
  wires.wakes.clear();
  wires.Do(wires.state.Wake(after(2)));
  EXPECT_THAT(wires.wakes, IsEmpty());
  wires.Do(wires.state.Wake(after(3)));
  EXPECT_EQ(wires.state.in_flight(), 0U);
}

// 0 would be none.
TEST(SessionStateTest, ADeadlineThatHasComeIsSentAsAMicrosecond) {
  std::mt19937_64 random(1);
  SessionState state(1);
  std::uint64_t id = 0;
  const Actions actions =
      state.Start(RequestOf(Ask(3, 4, 5, random), 64, absl::UnixEpoch()), &id, false);
  EXPECT_EQ(Written(actions.writes.at(0)).begin().header().timeout_us(), 1U);
}

TEST(SessionStateTest, WhatComesAfterARequestsEndIsDropped) {
  std::mt19937_64 random(1);
  SessionWires wires(1, 1);
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
  SessionWires wires(1, 1);
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

// Results over another connection may be slower than the news that this one ends.
TEST(SessionStateTest, AStreamOfADrainingServerMayEndBeforeTheOthersBroughtTheResult) {
  absl::Status draining = absl::UnavailableError("use another replica");
  draining.SetPayload("type.googleapis.com/gemmd.v1.Draining", absl::Cord());
  for (const bool says_so : {true, false}) {
    std::mt19937_64 random(1);
    SessionWires wires(2, 1);
    const auto first = Ask(9, 9, 9, random);
    wires.Start(RequestOf(first, 30));
    while (first->ends == 0 && wires.Step()) {
    }
    const auto second = Ask(9, 9, 9, random);
    wires.Start(RequestOf(second, 30));
    wires.Do(wires.state.Ended(1, says_so ? draining : absl::UnavailableError("draining")));
    EXPECT_EQ(wires.cancelled, !says_so);
    EXPECT_FALSE(wires.state.accepting());
    EXPECT_EQ(second->ends, 0);
    // The result that had to come did not.
    wires.Do(wires.state.Ended(0, absl::CancelledError("")));
    EXPECT_EQ(second->ends, 1);
    EXPECT_EQ(second->status.code(), absl::StatusCode::kUnavailable);
    if (says_so) {
      EXPECT_EQ(second->status, draining);
    }
  }
}

TEST(SessionStateTest, SaysThatMoreStreamsWereRefused) {
  std::mt19937_64 random(1);
  SessionWires wires(2, 1);
  const auto asked = Ask(4, 4, 4, random);
  wires.Start(RequestOf(asked, 8));
  wires.Do(wires.state.Ended(1, absl::NotFoundError("no such session")));
  wires.Do(wires.state.Ended(0, absl::CancelledError("")));
  EXPECT_TRUE(wires.state.refused_streams());
  EXPECT_EQ(asked->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(wires.state.why_ended(), asked->status);
}

// A proxy may say no more than that of any stream that the server ends.
TEST(SessionStateTest, AJoinThatSomebodyElseCancelledWasRefused) {
  std::mt19937_64 random(1);
  SessionWires wires(2, 1);
  const auto asked = Ask(4, 4, 4, random);
  wires.Start(RequestOf(asked, 8));
  wires.FinishWrite(0);  // Open
  wires.Deliver(0);      // Opened: the second stream asks to join
  wires.Do(wires.state.Ended(1, absl::CancelledError("")));
  wires.Do(wires.state.Ended(0, absl::CancelledError("")));
  EXPECT_TRUE(wires.state.refused_streams());
  EXPECT_EQ(asked->status.code(), absl::StatusCode::kUnavailable);
}

TEST(SessionStateTest, AStreamThatHasJoinedIsNotRefusedByItsEnd) {
  std::mt19937_64 random(1);
  SessionWires wires(2, 1);
  wires.peer.hold_begins = StreamPeer::kHoldAll;
  wires.Start(RequestOf(Ask(4, 4, 4, random), 8));
  wires.Run();
  wires.Do(wires.state.Ended(1, absl::CancelledError("")));
  wires.Do(wires.state.Ended(0, absl::CancelledError("")));
  EXPECT_FALSE(wires.state.refused_streams());
}

TEST(SessionStateTest, WhatThisSideCancelledWasNotRefused) {
  std::mt19937_64 random(1);
  SessionWires wires(2, 1);
  const auto asked = Ask(4, 4, 4, random);
  wires.Start(RequestOf(asked, 8));
  wires.FinishWrite(0);
  wires.Deliver(0);
  wires.Do(wires.state.Close(absl::UnavailableError("no longer wanted")));
  wires.Do(wires.state.Ended(1, absl::CancelledError("")));
  wires.Do(wires.state.Ended(0, absl::CancelledError("")));
  EXPECT_FALSE(wires.state.refused_streams());
  EXPECT_EQ(asked->status, absl::UnavailableError("no longer wanted"));
}

}  // namespace
}  // namespace gemmd::client
