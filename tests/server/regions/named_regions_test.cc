#include "server/regions/named_regions.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/server/regions/regions_fixture.h"

namespace gemmd {
namespace {

using absl::StatusCode;
using Kind = NamedRegions::Kind;

class NamedRegionsTest : public RegionsFixture {
 protected:
  StatusCode Register(const Tenant& tenant, const std::string& name) {
    return regions_.Register(tenant, name, "/" + file_.name(), 0, kFileBytes).code();
  }

  NamedRegions regions_{&table_};
  const Tenant a_ = *Tenant::Named("a");
  const Tenant b_ = *Tenant::Named("b");
};

TEST_F(NamedRegionsTest, ANameIsItsTenants) {
  EXPECT_EQ(Register(a_, "r"), StatusCode::kOk);
  EXPECT_EQ(Register(b_, "r"), StatusCode::kOk);
  EXPECT_EQ(Register(a_, "r"), StatusCode::kAlreadyExists);
  EXPECT_NE(*regions_.Find(a_, "r"), *regions_.Find(b_, "r"));
  EXPECT_EQ(regions_.Find(Tenant(), "r").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(regions_.List(a_, Kind::kPosix, "").size(), 1U);
  EXPECT_TRUE(regions_.List(a_, Kind::kCuda, "").empty());
  EXPECT_TRUE(regions_.List(a_, Kind::kPosix, "q").empty());
}

TEST_F(NamedRegionsTest, WhatIsUnregisteredIsGivenBack) {
  ASSERT_EQ(Register(a_, "r"), StatusCode::kOk);
  ASSERT_EQ(Register(b_, "r"), StatusCode::kOk);
  EXPECT_EQ(Register(a_, "s"), StatusCode::kResourceExhausted);
  regions_.Unregister(a_, Kind::kCuda, "");  // of another kind
  EXPECT_EQ(table_.usage().regions, 2U);
  regions_.Unregister(a_, Kind::kPosix, "unknown");
  regions_.Unregister(a_, Kind::kPosix, "");
  EXPECT_EQ(table_.usage().regions, 1U);
  EXPECT_EQ(regions_.Find(a_, "r").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(regions_.Find(b_, "r").ok());
  EXPECT_EQ(Register(a_, "s"), StatusCode::kOk);
}

TEST_F(NamedRegionsTest, TheLongestLeaseCountsFromTheLastUse) {
  ASSERT_EQ(Register(a_, "r"), StatusCode::kOk);
  clock_.Advance(4999);
  ASSERT_TRUE(table_.Use("a", *regions_.Find(a_, "r"), a_).ok());
  clock_.Advance(4999);
  EXPECT_TRUE(regions_.Find(a_, "r").ok());
  clock_.Advance(1);
  EXPECT_EQ(regions_.Find(a_, "r").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(regions_.List(a_, Kind::kPosix, "").empty());
  table_.LookRound();
  EXPECT_EQ(Register(a_, "r"), StatusCode::kOk) << "the name is free again";
}

TEST_F(NamedRegionsTest, NamesAndKeysAreChecked) {
  EXPECT_EQ(Register(a_, ""), StatusCode::kInvalidArgument);
  EXPECT_EQ(Register(a_, std::string(256, 'x')), StatusCode::kInvalidArgument);
  EXPECT_EQ(Register(a_, std::string(255, 'x')), StatusCode::kOk);
  EXPECT_EQ(regions_.Register(a_, "r", "//" + file_.name(), 0, 1).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(regions_.Register(a_, "r", "/elsewhere", 0, 1).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(regions_.RegisterCuda(a_, "r", std::string(64, 'x'), 0, 1).code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(table_.usage().regions, 1U);
}

}  // namespace
}  // namespace gemmd
