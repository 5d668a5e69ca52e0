#include "server/tenants/tenant.h"

#include <string>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Tenant, NamesAreShortAndPlain) {
  EXPECT_TRUE(Tenant::Named("team-a.prod_2").ok());
  EXPECT_EQ(*Tenant::Named(""), Tenant());
  EXPECT_EQ(Tenant::Named("a b").status().message(),
            "gemmd-tenant has a character that is none of A-Z a-z 0-9 . _ -");
  EXPECT_FALSE(Tenant::Named("auth:a").ok());
  EXPECT_FALSE(Tenant::Named("\xc3\xa9").ok());
  EXPECT_TRUE(Tenant::Named(std::string(64, 'a')).ok());
  EXPECT_EQ(Tenant::Named(std::string(65, 'a')).status().message(),
            "gemmd-tenant has 65 characters; it may have 64");
}

TEST(Tenant, NobodyCanCallThemselvesAsACertificateDoes) {
  EXPECT_NE(Tenant::Authenticated("a"), *Tenant::Named("a"));
  EXPECT_NE(Tenant::Authenticated(""), Tenant());
}

}  // namespace
}  // namespace gemmd
