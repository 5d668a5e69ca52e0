#include "server/rpc/call_watch.h"

#include <deque>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/rpc/peer.h"
#include "server/tenants/retry_after.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

class FakeCall final : public WatchedCall {
 public:
  using WatchedCall::SetDue;
  TimeNs OnLate(TimeNs /*now*/) override {
    ++late;
    return next;
  }
  int late = 0;
  TimeNs next = kNoDeadline;
};

class CallWatchTest : public ::testing::Test {
 protected:
  static CallWatch::Options SmallOptions() {
    CallWatch::Options options;
    options.calls = 6;
    return options;
  }

  testing::FakeClock clock_;
  CallWatch watch_{SmallOptions(), &clock_, std::chrono::milliseconds(0),
                   [](const std::string& /*peer*/) {}};
};

TEST_F(CallWatchTest, ACallIsLateOnceForEachTimeThatPasses) {
  FakeCall call;
  EXPECT_TRUE(watch_.Add(&call, "a").ok());
  watch_.Look();
  EXPECT_EQ(call.late, 0);
  call.SetDue(clock_.Now() + 5);
  call.next = clock_.Now() + 10;
  clock_.Advance(5);
  watch_.Look();
  EXPECT_EQ(call.late, 0);
  clock_.Advance(1);
  watch_.Look();
  watch_.Look();
  EXPECT_EQ(call.late, 1);
  call.next = kNoDeadline;
  clock_.Advance(5);
  watch_.Look();
  watch_.Look();
  EXPECT_EQ(call.late, 2);
  call.SetDue(0);
  watch_.Remove(&call);
  watch_.Look();
  EXPECT_EQ(call.late, 2);
}

TEST_F(CallWatchTest, WhereThereAreTooManyEachAddressHasItsPart) {
  std::deque<FakeCall> calls(9);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(watch_.Add(&calls[i], i < 4 ? "a:1" : "b:1").ok());
  EXPECT_TRUE(watch_.Add(&calls[6], "c:1").ok()) << "which had none";
  const absl::Status full = watch_.Add(&calls[7], "a:1");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "4 calls of address a are in progress, and the limit is 2 (limits.calls)");
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  EXPECT_FALSE(watch_.MayConnect("a").ok());
  EXPECT_TRUE(watch_.MayConnect("c").ok());
  EXPECT_TRUE(watch_.MayConnect("d").ok());
  for (const int i : {0, 1, 7}) watch_.Remove(&calls[i]);
  EXPECT_TRUE(watch_.Add(&calls[8], "a:1").ok());
  EXPECT_TRUE(watch_.MayConnect("a").ok());
  for (const int i : {2, 3, 4, 5, 6, 8}) watch_.Remove(&calls[i]);
}

TEST_F(CallWatchTest, AnAddressHasCallsLeftToOthers) {
  CallWatch::Options options = SmallOptions();
  options.calls_per_address = 3;
  options.proxies = {"10.0.0.9"};
  CallWatch watch(options, &clock_, std::chrono::milliseconds(0), [](const std::string&) {});
  std::deque<FakeCall> calls(6);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(watch.MayConnect("10.0.0.1").ok());
    EXPECT_TRUE(watch.Add(&calls[i], absl::StrCat("ipv4:10.0.0.1:", 100 + i)).ok());
  }
  EXPECT_FALSE(watch.MayConnect("10.0.0.1").ok());
  EXPECT_TRUE(watch.MayConnect("10.0.0.2").ok());
  const absl::Status full = watch.Add(&calls[3], "ipv4:10.0.0.1:103");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "3 calls of address 10.0.0.1 are in progress, and the limit is 3 (limits.calls)");
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  EXPECT_TRUE(watch.Add(&calls[4], "ipv4:10.0.0.2:100").ok());
  watch.Remove(&calls[3]);
  watch.Remove(&calls[0]);
  EXPECT_TRUE(watch.Add(&calls[5], "ipv4:10.0.0.1:103").ok());
  for (const int i : {1, 2, 4, 5}) watch.Remove(&calls[i]);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(watch.Add(&calls[i], absl::StrCat("ipv4:10.0.0.9:", i)).ok()) << "of a proxy";
  }
  EXPECT_TRUE(watch.MayConnect("10.0.0.9").ok());
  for (FakeCall& call : calls) watch.Remove(&call);
}

TEST(SlowCalls, AreBoundedInAllAndOfEachAddress) {
  SlowCalls calls({3, 2, {"proxy"}});
  EXPECT_TRUE(calls.Add("a").ok());
  EXPECT_TRUE(calls.Add("a").ok());
  const absl::Status of_address = calls.Add("a");
  EXPECT_EQ(of_address.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(of_address.message().find("2 other calls of address a do"), std::string::npos)
      << of_address;
  EXPECT_NE(of_address.message().find("MatmulStream"), std::string::npos);
  EXPECT_TRUE(RetryAfterMs(of_address).has_value());
  EXPECT_TRUE(calls.Add("b").ok());
  EXPECT_NE(calls.Add("b").message().find("3 other calls do"), std::string::npos);
  calls.Remove("a");
  EXPECT_TRUE(calls.Add("b").ok());
  EXPECT_FALSE(calls.Add("a").ok());
  for (const char* address : {"a", "b", "b"}) calls.Remove(address);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(calls.Add("proxy").ok());
  EXPECT_FALSE(calls.Add("proxy").ok());
}

TEST(Peer, HasAnAddressAndAnEndpoint) {
  EXPECT_EQ(AddressOf("ipv4:10.0.0.1:4711"), "10.0.0.1");
  EXPECT_EQ(AddressOf("ipv6:%5B2001:db8::1%5D:4711"), "2001:db8::/64");
  EXPECT_EQ(AddressOf("unix:/run/x"), "unix");
  EXPECT_EQ(EndpointOf("ipv4:10.0.0.1:4711"), "10.0.0.1:4711");
  EXPECT_EQ(EndpointOf("ipv6:%5B2001:db8::1%5D:4711"), "[2001:db8::1]:4711");
  EXPECT_EQ(EndpointOf("ipv6:%5Bfe80::1%25eth0%5D:4711"), "[fe80::1]:4711");
  EXPECT_EQ(EndpointOf("unix:"), "unix");
}

}  // namespace
}  // namespace gemmd
