#include "server/auth/policy_file.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/jwt_issuer.h"

namespace gemmd {
namespace {

constexpr std::chrono::milliseconds kWhenTold(0);
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class PolicyFileTest : public ::testing::Test {
 protected:
  ~PolicyFileTest() override { std::remove(path_.c_str()); }

  void Write(const std::string& text) const { std::ofstream(path_) << text; }

  // Returns the roles of an anonymous caller; none if nothing is allowed.
  static Roles AnonymousRoles(const PolicyFile& file) {
    const absl::StatusOr<Identity> identity = file.policy()->Identify({}, kNow);
    return identity.ok() ? identity->roles : Roles();
  }

  const std::string path_ = ::testing::TempDir() + "/policy.textproto";
};

TEST_F(PolicyFileTest, WithoutAPathEverybodyHasEveryRole) {
  const auto file = PolicyFile::Open("", kWhenTold);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->policy()->is_open());
  (*file)->Reload();
  EXPECT_TRUE((*file)->policy()->is_open());
}

TEST_F(PolicyFileTest, IsReadAgain) {
  Write("anonymous { role: USER }");
  const auto file = PolicyFile::Open(path_, kWhenTold);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(AnonymousRoles(**file), Roles{Role::kUser});
  const auto before = (*file)->policy();
  (*file)->Reload();
  EXPECT_EQ((*file)->policy(), before) << "nothing has changed";
  Write("anonymous { role: OBSERVER }");
  (*file)->Reload();
  EXPECT_EQ(AnonymousRoles(**file), Roles{Role::kObserver});
}

// The keys change while the policy's own text stays.
TEST_F(PolicyFileTest, KeysThatItNamesAreReadAgain) {
  const testing::JwtKey first(testing::JwtKey::Kind::kP256, "first");
  const testing::JwtKey second(testing::JwtKey::Kind::kP256, "second");
  const std::string keys = ::testing::TempDir() + "/jwks.json";
  const auto write_keys = [&keys](const std::string& text) { std::ofstream(keys) << text; };
  write_keys(testing::KeySet(first.PublicJson()));
  Write("jwt { issuer: \"me\" audience: \"gemmd\" jwks_file: \"" + keys +
        "\" rule { subject: \"*\" tenant: \"$name\" role: USER } }");
  const auto file = PolicyFile::Open(path_, kWhenTold);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto knows = [&file](const testing::JwtKey& key) {
    CallerCredentials credentials;
    credentials.token = key.Sign(testing::Claims("me", "gemmd", "a", 1'800'000'100));
    return (*file)->policy()->Identify(credentials, kNow).ok();
  };
  EXPECT_TRUE(knows(first));
  EXPECT_FALSE(knows(second));
  const auto before = (*file)->policy();
  (*file)->Reload();
  EXPECT_EQ((*file)->policy(), before) << "nothing has changed";
  write_keys("{");
  (*file)->Reload();
  EXPECT_TRUE(knows(first)) << "a slip of an editor";
  write_keys(testing::KeySet(second.PublicJson()));
  (*file)->Reload();
  EXPECT_FALSE(knows(first));
  EXPECT_TRUE(knows(second));
  std::remove(keys.c_str());
}

TEST_F(PolicyFileTest, KeepsThePolicyWhereTheFileIsNone) {
  Write("anonymous { role: USER }");
  const auto file = PolicyFile::Open(path_, kWhenTold);
  ASSERT_TRUE(file.ok());
  for (const char* text : {"", "anonymous {", "anonymous { role: KING }"}) {
    Write(text);
    (*file)->Reload();
    EXPECT_EQ(AnonymousRoles(**file), Roles{Role::kUser}) << text;
  }
  std::remove(path_.c_str());
  (*file)->Reload();
  EXPECT_EQ(AnonymousRoles(**file), Roles{Role::kUser});
  Write("anonymous { role: OPERATOR }");
  (*file)->Reload();
  EXPECT_EQ(AnonymousRoles(**file), Roles{Role::kOperator});
}

TEST_F(PolicyFileTest, LogsAFaultOnce) {
  Write("anonymous { role: USER }");
  const auto file = PolicyFile::Open(path_, kWhenTold);
  ASSERT_TRUE(file.ok());
  Write("anonymous {");
  ::testing::internal::CaptureStderr();
  (*file)->Reload();
  (*file)->Reload();
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::size_t first = log.find("policy_unchanged");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("policy_unchanged", first + 1), std::string::npos) << log;
}

TEST_F(PolicyFileTest, IsReadAgainWithoutBeingTold) {
  Write("anonymous { role: USER }");
  const auto file = PolicyFile::Open(path_, std::chrono::milliseconds(1));
  ASSERT_TRUE(file.ok());
  Write("anonymous { role: OBSERVER }");
  while (AnonymousRoles(**file) != Roles{Role::kObserver}) {
  }
}

TEST_F(PolicyFileTest, ErrorsNameTheOptionAndThePath) {
  const absl::Status missing = PolicyFile::Open("/nowhere/policy", kWhenTold).status();
  EXPECT_EQ(
      missing.message(),
      "auth.policy_file is \"/nowhere/policy\": it cannot be read: No such file or directory");
  EXPECT_EQ(PolicyFile::Open("/", kWhenTold).status().message(),
            "auth.policy_file is \"/\": it cannot be read: it is no regular file");
  Write("");
  EXPECT_EQ(PolicyFile::Open(path_, kWhenTold).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gemmd
