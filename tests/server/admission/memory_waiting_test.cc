// Requests that share a device's memory, and wait for it.
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/time/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/admission/admission.h"
#include "server/tenants/retry_after.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/fake_kernel.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;

constexpr auto kCarrier = Admission::Carrier::kMessage;
// 120000 bytes of operands and result, and 12800 of workspace: six of them are a tenant's share.
constexpr std::uint64_t kSize = 100;
constexpr std::uint64_t kMemoryBytes = 1 << 20;

using Admitted = std::unique_ptr<AdmittedMatmul>;

ClientPolicy Policy(WaitingRoom* room) {
  ClientPolicy policy;
  policy.memory_percent = 80;
  policy.room = room;
  return policy;
}

class MemoryWaitingTest : public ::testing::Test {
 protected:
  MemoryWaitingTest() {
    limits_.request_bytes = 1 << 30;
    limits_.result_bytes = 1 << 26;
    WaitingRoom::Bounds bounds;
    bounds.requests = 64;
    bounds.longest = 1000 * kMillisecond;
    room_ = std::make_unique<WaitingRoom>(bounds, &clock_, std::chrono::milliseconds(0));
    admission_ = std::make_unique<Admission>(limits_, &testing::OneFakeKernel(), &router_, &clock_,
                                             AdmissionHelpers(), Policy(room_.get()));
  }

  static MatmulCall Call(const std::string& tenant, const std::string& peer,
                         std::uint64_t n = kSize) {
    OperandSpec operand;
    operand.data = {DataType::kF32, n, n, Order::kRowMajor, 0};
    MatmulCall call;
    call.a = call.b = operand;
    call.tenant = *Tenant::Named(tenant);
    call.peer = peer;
    return call;
  }

  absl::StatusOr<Admitted> Admit(const MatmulCall& call) {
    return admission_->Admit(call, kNoDeadline, kCarrier);
  }

  // The answer to a request that waits.
  struct Wait {
    bool is_told = false;
    absl::StatusOr<Admitted> admitted = absl::UnknownError("not told");
  };
  std::shared_ptr<Wait> Await(std::uint64_t id, const MatmulCall& call,
                              TimeNs deadline = kNoDeadline) {
    auto wait = std::make_shared<Wait>();
    admission_->AwaitMemory(id, call, deadline, kCarrier, 0, [wait](auto admitted) {
      EXPECT_FALSE(wait->is_told);
      wait->is_told = true;
      wait->admitted = std::move(admitted);
    });
    return wait;
  }

  testing::FakeClock clock_;
  testing::FakeDevice device_{&clock_, kMemoryBytes, 1};
  testing::FakeAlarm alarm_;
  Scheduler scheduler_{&device_, &clock_, &alarm_, testing::BoundOf(1000)};
  Router router_{{{&device_, &scheduler_}}};
  RequestLimits limits_;
  std::unique_ptr<WaitingRoom> room_;
  std::unique_ptr<Admission> admission_;
};

TEST_F(MemoryWaitingTest, AHogLeavesRoomForOthers) {
  std::vector<Admitted> hog;
  while (true) {
    absl::StatusOr<Admitted> admitted = Admit(Call("hog", "10.0.0.1"));
    if (!admitted.ok()) {
      EXPECT_TRUE(admission_->MayWait(admitted.status()));
      EXPECT_TRUE(RetryAfterMs(admitted.status()).has_value());
      EXPECT_THAT(std::string(admitted.status().message()),
                  HasSubstr("the tenant's share of bytes of device"));
      break;
    }
    hog.push_back(*std::move(admitted));
  }
  EXPECT_EQ(hog.size(), 6U);
  EXPECT_TRUE(Admit(Call("polite", "10.0.0.2")).ok());
  // Another name does not help.
  EXPECT_THAT(std::string(Admit(Call("pig", "10.0.0.1")).status().message()),
              HasSubstr("the share of address 10.0.0.1 of bytes of device"));
}

TEST_F(MemoryWaitingTest, ClientsBehindAProxyAreToldApartByTheirConnections) {
  ClientPolicy policy = Policy(room_.get());
  policy.proxies = {"10.0.0.1"};
  const Admission admission(limits_, &testing::OneFakeKernel(), &router_, &clock_, {}, policy);
  std::vector<Admitted> hog;
  for (int i = 0; i < 6; ++i) {
    MatmulCall call = Call(std::to_string(i), "10.0.0.1");
    call.connection = 1;
    hog.push_back(*admission.Admit(call, kNoDeadline, kCarrier));
  }
  MatmulCall call = Call("other", "10.0.0.1");
  call.connection = 1;
  EXPECT_THAT(std::string(admission.Admit(call, kNoDeadline, kCarrier).status().message()),
              HasSubstr("the share of address 10.0.0.1 connection 1 of bytes of device"));
  call.connection = 2;
  EXPECT_TRUE(admission.Admit(call, kNoDeadline, kCarrier).ok());
}

TEST_F(MemoryWaitingTest, HighPriorityIsForWhomTheOperatorNames) {
  ClientPolicy policy;
  policy.high_priority_tenants = {"urgent"};
  const Admission admission(limits_, &testing::OneFakeKernel(), &router_, &clock_, {}, policy);
  MatmulCall call = Call("urgent", "x");
  call.priority = Priority::kHigh;
  EXPECT_TRUE(admission.Admit(call, kNoDeadline, kCarrier).ok());
  EXPECT_TRUE(Admit(call).ok());
  call = Call("other", "x");
  EXPECT_TRUE(admission.Admit(call, kNoDeadline, kCarrier).ok());
  call.priority = Priority::kHigh;
  EXPECT_EQ(admission.Admit(call, kNoDeadline, kCarrier).status(),
            absl::PermissionDeniedError("priority is high, which tenant \"other\" may not have "
                                        "(scheduling.high_priority_tenants)"));
  EXPECT_TRUE(Admit(call).ok());
}

// Two clients hold all memory, and ask for what comes back before a third one, who asks for more at
// a time, can.
TEST_F(MemoryWaitingTest, MemoryIsKeptForWhoHoldsLeast) {
  std::deque<Admitted> hogs;
  for (int i = 0; i < 6; ++i) hogs.push_back(*Admit(Call("hog", "x")));
  while (true) {
    absl::StatusOr<Admitted> admitted = Admit(Call("pig", "y", 40));
    if (!admitted.ok()) break;
    hogs.push_back(*std::move(admitted));
  }
  const auto polite = Await(1, Call("polite", "z"));
  room_->Look();
  EXPECT_FALSE(polite->is_told);
  hogs.pop_back();  // enough for another one of the pig's
  EXPECT_THAT(std::string(Admit(Call("pig", "y", 40)).status().message()),
              HasSubstr("memory is kept for a client that holds less"));
  const auto pig = Await(2, Call("pig", "y", 40));
  const auto other = Await(3, Call("other", "w", 1));
  room_->Look();
  EXPECT_FALSE(pig->is_told);
  EXPECT_TRUE(other->admitted.ok()) << "it holds nothing, and would hold less";
  hogs.pop_front();
  room_->Look();
  EXPECT_TRUE(polite->admitted.ok()) << polite->admitted.status();
  hogs.clear();
  room_->Look();
  EXPECT_TRUE(pig->admitted.ok()) << pig->admitted.status();
}

// The preferred device would never have room for the request, and the other one is full.
TEST_F(MemoryWaitingTest, ADeviceThatIsTooSmallDoesNotSpeakForOneThatIsFull) {
  testing::FakeDevice small(&clock_, 1 << 16, 1);
  Scheduler small_scheduler(&small, &clock_, &alarm_, testing::BoundOf(1000));
  const Router router({{&small, &small_scheduler}, {&device_, &scheduler_}});
  admission_ = std::make_unique<Admission>(limits_, &testing::OneFakeKernel(), &router, &clock_,
                                           AdmissionHelpers(), Policy(room_.get()));
  std::deque<Admitted> hogs;
  for (int i = 0; i < 6; ++i) hogs.push_back(*Admit(Call("hog", "x")));
  hogs.push_back(*Admit(Call("pig", "y")));
  const absl::Status full = Admit(Call("polite", "z")).status();
  EXPECT_TRUE(admission_->MayWait(full)) << full;
  const auto polite = Await(1, Call("polite", "z"));
  room_->Look();
  EXPECT_FALSE(polite->is_told);
  hogs.clear();
  room_->Look();
  EXPECT_TRUE(polite->admitted.ok()) << polite->admitted.status();
  admission_.reset();  // before its router
}

TEST_F(MemoryWaitingTest, ARequestThatWaitedIsAdmittedInItsTurn) {
  std::deque<Admitted> hog;
  for (int i = 0; i < 6; ++i) hog.push_back(*Admit(Call("hog", "x")));
  const auto first = Await(1, Call("hog", "x"));
  const auto second = Await(2, Call("hog", "x", 1));
  room_->Look();
  EXPECT_FALSE(first->is_told);
  EXPECT_FALSE(second->is_told);
  // There would be room, and it waits behind the others.
  EXPECT_THAT(std::string(Admit(Call("hog", "x", 1)).status().message()),
              HasSubstr("other requests of the tenant wait"));
  clock_.Advance(5 * kMillisecond);
  hog.pop_front();
  room_->Look();
  ASSERT_TRUE(first->admitted.ok()) << first->admitted.status();
  ASSERT_TRUE(second->admitted.ok()) << second->admitted.status();
  const AdmittedMatmul& admitted = **first->admitted;
  EXPECT_EQ(admitted.admission.end - admitted.admission.start, 5 * kMillisecond);
  EXPECT_FALSE(admitted.job->submitter_is_free) << "the room's thread would compute it";
}

TEST_F(MemoryWaitingTest, WhoeverGivesMemoryBackWakesTheRoom) {
  WaitingRoom room(WaitingRoom::Bounds(), &clock_, std::chrono::hours(1));
  const Admission admission(limits_, &testing::OneFakeKernel(), &router_, &clock_, {},
                            Policy(&room));
  std::deque<Admitted> hog;
  for (int i = 0; i < 6; ++i) {
    hog.push_back(*admission.Admit(Call("hog", "x"), kNoDeadline, kCarrier));
  }
  absl::Notification told;
  admission.AwaitMemory(1, Call("hog", "x"), kNoDeadline, kCarrier, 0, [&told](auto admitted) {
    EXPECT_TRUE(admitted.ok()) << admitted.status();
    told.Notify();
  });
  hog.pop_front();
  told.WaitForNotification();
}

// A device with page-locked memory of 500000 bytes, of which 400000 are a share, for planes of more
// than 1000.
class PageLockedMemory : public MemoryWaitingTest {
 protected:
  PageLockedMemory() {
    device_.host_limits.small_plane_bytes = 1000;
    device_.host_limits.large_bytes = 500000;
    device_.host_limits.ordinary_bytes = 500000;
    admission_ = std::make_unique<Admission>(limits_, &testing::OneFakeKernel(), &router_, &clock_,
                                             AdmissionHelpers(), Policy(room_.get()));
  }
};

TEST_F(PageLockedMemory, AResultCountsUntilItWasRead) {
  std::vector<HostBuffer> results;
  for (int i = 0; i < 5; ++i) {
    Admitted admitted = *Admit(Call("reader", "x"));
    results.push_back(std::move(admitted->completion->d));
  }
  // Results of 200000 bytes are held; this one has as many, and one of 4 bytes more has not.
  EXPECT_TRUE(Admit(Call("reader", "x", 223)).ok());
  EXPECT_FALSE(Admit(Call("reader", "x", 224)).ok());
  results.clear();
  EXPECT_TRUE(Admit(Call("reader", "x", 224)).ok());
}

TEST_F(PageLockedMemory, AResultThatItNeverHoldsCountsAsOrdinary) {
  device_.host_limits.large_bytes = 50000;  // planes of 120 by 120 have 57600
  Admission admission(limits_, &testing::OneFakeKernel(), &router_, &clock_, {},
                      Policy(room_.get()));
  const auto admit = [&](std::int64_t n) {
    return admission.Admit(Call("reader", "x", n), kNoDeadline, kCarrier);
  };
  std::vector<HostBuffer> results;
  for (int i = 0; i < 4; ++i) {
    absl::StatusOr<Admitted> admitted = admit(120);
    ASSERT_TRUE(admitted.ok()) << admitted.status();
    results.push_back(std::move((*admitted)->completion->d));
  }
  // The results hold 230400 of 400000 bytes of ordinary memory; a further request's planes have
  // 172800.
  EXPECT_FALSE(admit(120).ok());
  EXPECT_TRUE(admit(50).ok());
  results.clear();
  EXPECT_TRUE(admit(120).ok());
}

TEST_F(PageLockedMemory, OperandsGiveWayToResults) {
  std::vector<Admitted> admitted;
  for (int i = 0; i < 3; ++i) admitted.push_back(*Admit(Call("a", "x")));
  EXPECT_EQ(device_.ordinary_operands, 0);
  admitted.push_back(*Admit(Call("a", "x")));  // 120000 more would pass 400000
  EXPECT_EQ(device_.ordinary_operands, 2);
}

TEST_F(PageLockedMemory, SmallPlanesTakeTheSmallOnes) {
  device_.host_limits.small_bytes = 10000;
  Admission admission(limits_, &testing::OneFakeKernel(), &router_, &clock_, {},
                      Policy(room_.get()));
  std::vector<Admitted> small;
  for (int i = 0; i < 2; ++i) {  // of three planes each
    small.push_back(*admission.Admit(Call("a", "x", 2), kNoDeadline, kCarrier));
  }
  EXPECT_THAT(
      std::string(admission.Admit(Call("a", "x", 2), kNoDeadline, kCarrier).status().message()),
      HasSubstr("bytes of page-locked memory for small planes is 8000, 6000 are taken"));
}

TEST_F(MemoryWaitingTest, NobodyWaitsForWhatNoRequestHolds) {
  const absl::StatusOr<MemoryReservation> resident =
      device_.memory().ReserveResident(kMemoryBytes - 1000);
  const auto wait = Await(1, Call("a", "x"));
  room_->Look();
  EXPECT_EQ(wait->admitted.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(wait->admitted.status().message()), HasSubstr("device memory is full"));
  EXPECT_EQ(room_->waiting(), 0U);
}

TEST_F(MemoryWaitingTest, MemoryIsWantedOnceARequestHasWaitedForIt) {
  Admitted holder = *Admit(Call("a", "x", 280));
  const auto waiting = Await(1, Call("b", "y", 280));
  clock_.Advance(500 * kMillisecond - 1);
  room_->Look();
  EXPECT_FALSE(admission_->IsMemoryWanted());
  clock_.Advance(1);
  room_->Look();
  EXPECT_TRUE(admission_->IsMemoryWanted());
  clock_.Advance(100 * kMillisecond);
  EXPECT_TRUE(admission_->IsMemoryWanted());
  holder.reset();
  room_->Look();
  EXPECT_TRUE(waiting->is_told);
  clock_.Advance(500 * kMillisecond);
  EXPECT_FALSE(admission_->IsMemoryWanted());
}

TEST_F(MemoryWaitingTest, WhoWaitsForItsOwnShareWantsNothingOfOthers) {
  std::vector<Admitted> held;
  for (int i = 0; i < 6; ++i) held.push_back(*Admit(Call("a", "x")));
  const auto waiting = Await(1, Call("a", "x"));
  clock_.Advance(600 * kMillisecond);
  room_->Look();
  EXPECT_FALSE(waiting->is_told);
  EXPECT_FALSE(admission_->IsMemoryWanted());
}

TEST_F(MemoryWaitingTest, WaitingEnds) {
  const Admitted holder = *Admit(Call("a", "x", 280));
  const auto cancelled = Await(1, Call("a", "x", 280));
  const auto late = Await(2, Call("b", "y", 280), clock_.Now() + 10 * kMillisecond);
  const auto wrong = Await(4, Call("d", "z", 100000));
  room_->Look();
  EXPECT_TRUE(wrong->is_told);
  EXPECT_EQ(wrong->admitted.status().code(), absl::StatusCode::kInvalidArgument);
  admission_->Cancel(1);
  EXPECT_EQ(cancelled->admitted.status().code(), absl::StatusCode::kCancelled);
  clock_.Advance(10 * kMillisecond);
  room_->Look();
  EXPECT_EQ(late->admitted.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(MemoryWaitingTest, WhoWaitsWhenTheServerDrainsIsLetInAndNobodyElse) {
  Admitted holder = *Admit(Call("a", "x", 280));
  const auto waiting = Await(1, Call("b", "y", 280));
  router_.StartDraining();
  room_->Look();
  EXPECT_FALSE(waiting->is_told);
  EXPECT_EQ(Admit(Call("b", "y")).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Admit(Call("c", "z")).status().code(), absl::StatusCode::kUnavailable);
  holder.reset();
  room_->Look();
  ASSERT_TRUE(waiting->is_told);
  EXPECT_TRUE(waiting->admitted.ok()) << waiting->admitted.status();
}

// A hog and others with random requests: each has one end, those of a tenant begin in their order,
// whoever stays within a fifth of the memory never waits, and all of it comes back.
TEST_F(MemoryWaitingTest, AnyHistoryEndsWell) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    std::uint64_t next_id = 1;
    struct Pending {
      std::string tenant;
      std::uint64_t id;
      std::shared_ptr<Wait> wait;
    };
    std::vector<Pending> pending;
    std::vector<Admitted> running;
    std::map<std::string, std::uint64_t> last_begun;
    Admitted polite;
    const auto collect = [&] {
      for (std::size_t i = 0; i < pending.size();) {
        if (!pending[i].wait->is_told) {
          ++i;
          continue;
        }
        absl::StatusOr<Admitted>& admitted = pending[i].wait->admitted;
        if (admitted.ok()) {
          std::uint64_t& last = last_begun[pending[i].tenant];
          ASSERT_GT(pending[i].id, last) << "seed " << seed;
          last = pending[i].id;
          running.push_back(*std::move(admitted));
        }
        pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
      }
    };
    for (int step = 0; step < 400; ++step) {
      switch (random() % 6) {
        case 0:
        case 1: {
          const std::string tenant = random() % 2 == 0 ? "hog" : std::to_string(random() % 3);
          const MatmulCall call = Call(tenant, "10.0.0.1", 1 + random() % 200);
          const std::uint64_t id = next_id++;
          absl::StatusOr<Admitted> admitted = Admit(call);
          if (admitted.ok()) {
            running.push_back(*std::move(admitted));
            last_begun[tenant] = id;
          } else {
            ASSERT_TRUE(admission_->MayWait(admitted.status())) << admitted.status();
            pending.push_back({tenant, id, Await(id, call)});
          }
          break;
        }
        case 2: {
          polite.reset();
          absl::StatusOr<Admitted> admitted = Admit(Call("polite", "10.0.0.2", 1 + random() % 120));
          ASSERT_TRUE(admitted.ok()) << "seed " << seed << ": " << admitted.status();
          polite = *std::move(admitted);
          break;
        }
        case 3:
          if (!running.empty()) {
            std::swap(running[random() % running.size()], running.back());
            running.pop_back();
          }
          break;
        case 4:
          if (!pending.empty()) admission_->Cancel(pending[random() % pending.size()].id);
          break;
        default:
          clock_.Advance(static_cast<TimeNs>(random() % 50) * kMillisecond);
          room_->Look();
      }
      collect();
      if (HasFatalFailure()) return;
    }
    polite.reset();
    while (!pending.empty()) {
      running.clear();
      room_->Look();
      collect();
    }
    running.clear();
    ASSERT_EQ(room_->waiting(), 0U);
    ASSERT_EQ(device_.memory().usage().free_bytes(), kMemoryBytes);
  }
}

}  // namespace
}  // namespace gemmd
