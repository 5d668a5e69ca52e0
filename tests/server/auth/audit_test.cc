#include "server/auth/audit.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "base/time/units.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

class AuditTest : public ::testing::Test {
 protected:
  // The lines that so many refusals write.
  std::string Refuse(int calls) {
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < calls; ++i) {
      audit_.Refused({"/a/B", "ipv4:10.0.0.1:1", "token ci", "alice"},
                     absl::PermissionDeniedError("why"));
    }
    return ::testing::internal::GetCapturedStderr();
  }
  static long Lines(const std::string& log) { return std::count(log.begin(), log.end(), '\n'); }

  testing::FakeClock clock_;
  AuditLog audit_{&clock_};
};

TEST_F(AuditTest, SaysWhoWasRefusedWhatAndWhy) {
  clock_.Advance(100 * kSecond);
  const std::string line = Refuse(1);
  for (const char* part :
       {"\"event\":\"call_refused\"", "\"method\":\"/a/B\"", "\"peer\":\"ipv4:10.0.0.1:1\"",
        "token ci", "alice", "PERMISSION_DENIED", "why"}) {
    EXPECT_TRUE(absl::StrContains(line, part)) << part << " in " << line;
  }
}

TEST_F(AuditTest, SaysWhoseQuotaRefusedWhatAndWhy) {
  clock_.Advance(100 * kSecond);
  ::testing::internal::CaptureStderr();
  const Tenant alice = Tenant::Authenticated("alice");
  audit_.OverQuota(alice.From({"ipv4:10.0.0.1:1", "/a/B"}), absl::ResourceExhaustedError("why"));
  audit_.OverQuota(alice, absl::ResourceExhaustedError("why"));
  const std::string log = ::testing::internal::GetCapturedStderr();
  for (const char* part :
       {"\"event\":\"quota_refused\",\"method\":\"/a/B\",\"peer\":\"ipv4:10.0.0.1:1\"",
        "\"tenant\":\"auth:alice\"", "RESOURCE_EXHAUSTED", "\"error\":\"why\""}) {
    EXPECT_TRUE(absl::StrContains(log, part)) << part << " in " << log;
  }
  EXPECT_EQ(Lines(log), 2);
}

TEST_F(AuditTest, WritesTenLinesASecondAndSaysWhatItLeftOut) {
  clock_.Advance(100 * kSecond);
  EXPECT_EQ(Lines(Refuse(1000)), 100);
  clock_.Advance(kSecond);
  const std::string log = Refuse(50);
  EXPECT_EQ(Lines(log), 10);
  EXPECT_TRUE(absl::StrContains(log, "\"left_out\":900")) << log;
  ::testing::internal::CaptureStderr();
  audit_.Served({"/a/B", "unix:", "token ops", "ops"});
  EXPECT_TRUE(absl::StrContains(::testing::internal::GetCapturedStderr(), "call_audited"))
      << "who is refused takes no line from who is served";
}

}  // namespace
}  // namespace gemmd
