// Names of operands in the store.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/store/operand_store.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using testing::StoredMatrix;

OperandKey ByName(const std::string& name) { return {{}, {}, name}; }

class NamesTest : public ::testing::Test, protected testing::StoreFixture {
 protected:
  std::string PutNamed(const Tenant& tenant, const std::string& bytes, const std::string& name) {
    const StoredMatrix matrix(bytes);
    const std::string handle = *Put(tenant, matrix);
    EXPECT_TRUE(store.SetName(tenant, matrix.key(), name, false).ok());
    return handle;
  }

  const Tenant tenant_ = *Tenant::Named("a");
  const Tenant other_ = *Tenant::Named("b");
};

TEST_F(NamesTest, ANameStandsForItsOperand) {
  const std::string handle = PutNamed(tenant_, "bytes", "layers.0.w");
  EXPECT_EQ(BytesOf(tenant_, ByName("layers.0.w")), "bytes");
  const auto used = store.Use(tenant_, ByName("layers.0.w"), "b");
  EXPECT_TRUE(used.ok());
  EXPECT_EQ(store.Get(tenant_, ByName("layers.0.w"))->handle, handle);
  EXPECT_EQ(*store.Renew(tenant_, ByName("layers.0.w"), kSecond), kSecond);
  EXPECT_EQ(store.List(tenant_, 0, 10).first[0].names, std::vector<std::string>{"layers.0.w"});
}

TEST_F(NamesTest, ATenantsNamesAreItsOwn) {
  PutNamed(tenant_, "mine", "w");
  const absl::Status status = store.Use(other_, ByName("w"), "b").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "b.name is \"w\": no operand of this tenant has it");
  EXPECT_EQ(MissingOf(status).names, std::vector<std::string>{"w"});
  PutNamed(other_, "theirs", "w");
  EXPECT_EQ(BytesOf(tenant_, ByName("w")), "mine");
  EXPECT_EQ(BytesOf(other_, ByName("w")), "theirs");
}

TEST_F(NamesTest, ANameThatIsTakenStaysUnlessItIsToBeReplaced) {
  const std::string first = PutNamed(tenant_, "first", "w");
  const StoredMatrix second("second");
  const std::string handle = *Put(tenant_, second);
  const absl::Status status = store.SetName(tenant_, second.key(), "w", false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(), absl::StrCat("new_name is \"w\", which is the name of operand ",
                                           first, "; with replace it becomes this one's"));
  const auto named = store.SetName(tenant_, second.key(), "w", true);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->replaced_handle, first);
  EXPECT_EQ(named->info.handle, handle);
  EXPECT_EQ(BytesOf(tenant_, ByName("w")), "second");
  // The operand that had the name stays, without it.
  EXPECT_TRUE(store.Get(tenant_, {first, {}})->names.empty());
  // Naming it once more changes nothing.
  EXPECT_EQ(store.SetName(tenant_, second.key(), "w", false)->replaced_handle, "");
  EXPECT_EQ(store.SetName(tenant_, second.key(), "w", true)->replaced_handle, "");
}

TEST_F(NamesTest, OneOfSeveralNamesIsForgottenAlone) {
  PutNamed(tenant_, "tied", "embedding");
  ASSERT_TRUE(store.SetName(tenant_, ByName("embedding"), "head", false).ok());
  EXPECT_EQ(store.Get(tenant_, ByName("head"))->names,
            (std::vector<std::string>{"embedding", "head"}));
  ASSERT_TRUE(store.Release(tenant_, ByName("embedding")).ok());
  EXPECT_FALSE(store.Get(tenant_, ByName("embedding")).ok());
  EXPECT_EQ(BytesOf(tenant_, ByName("head")), "tied");
  ASSERT_TRUE(store.Release(tenant_, ByName("head")).ok());
  EXPECT_EQ(store.statistics().residents, 0U);
}

TEST_F(NamesTest, WhatGoesLosesItsNames) {
  const std::string handle = PutNamed(tenant_, "bytes", "w");
  ASSERT_TRUE(store.Release(tenant_, {handle, {}}).ok());
  EXPECT_FALSE(store.Get(tenant_, ByName("w")).ok());
  PutNamed(tenant_, "others", "w");
  clock.Advance(100 * kSecond);
  ASSERT_TRUE(store.EvictFrom(&device));
  EXPECT_FALSE(store.Get(tenant_, ByName("w")).ok());
}

TEST_F(NamesTest, AnUploadThatHasNotEndedHasNone) {
  const StoredMatrix matrix("partial");
  auto stream = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  EXPECT_FALSE(*Send(stream.get(), matrix, 0, 3));
  EXPECT_EQ(store.SetName(tenant_, matrix.key(), "w", false).status().code(),
            absl::StatusCode::kNotFound);
}

// SmallStore() has places for six of a tenant.
TEST_F(NamesTest, ANameCountsAsAnOperandWithoutBytes) {
  const std::string handle = PutNamed(tenant_, "bytes", "0");
  for (int i = 1; i < 5; ++i) {
    ASSERT_TRUE(store.SetName(tenant_, ByName("0"), absl::StrCat(i), false).ok());
  }
  const absl::Status full = store.SetName(tenant_, ByName("0"), "5", false).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "the tenant's share of operands and names is 6, 6 are taken, and this takes 1");
  EXPECT_EQ(Put(tenant_, StoredMatrix("more")).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store.statistics().reserved_bytes, 5U);
  // A name that moves takes no other place.
  ASSERT_TRUE(store.Release(tenant_, ByName("4")).ok());
  const StoredMatrix more("more");
  ASSERT_TRUE(Put(tenant_, more).ok());
  EXPECT_TRUE(store.SetName(tenant_, more.key(), "0", true).ok());
  ASSERT_TRUE(store.Release(tenant_, {handle, {}}).ok());
  EXPECT_TRUE(Put(tenant_, StoredMatrix("and more")).ok());
}

TEST_F(NamesTest, APinnedOperandIsNeverEvicted) {
  PutNamed(tenant_, "weights", "w");
  ASSERT_TRUE(store.Pin(tenant_, ByName("w")).ok());
  clock.Advance(100000 * kSecond);
  EXPECT_FALSE(store.EvictFrom(&device));
  // A use does not end the lease, and neither does an upload of the same.
  EXPECT_TRUE(store.Use(tenant_, ByName("w"), "b").ok());
  ASSERT_TRUE(Put(tenant_, StoredMatrix("weights"), 0).ok());
  clock.Advance(100000 * kSecond);
  EXPECT_FALSE(store.EvictFrom(&device));
  ASSERT_TRUE(store.Renew(tenant_, ByName("w"), 0).ok());
  EXPECT_TRUE(store.EvictFrom(&device));
  EXPECT_EQ(store.Pin(tenant_, ByName("w")).code(), absl::StatusCode::kNotFound);
}

TEST_F(NamesTest, AListOfAllTenantsSaysWhoseEachIs) {
  PutNamed(tenant_, "mine", "w");
  PutNamed(other_, "theirs", "w");
  const auto [infos, next] = store.List(std::nullopt, 0, 10);
  EXPECT_EQ(next, 0U);
  ASSERT_EQ(infos.size(), 2U);
  EXPECT_EQ(infos[0].tenant, tenant_);
  EXPECT_EQ(infos[1].tenant, other_);
  EXPECT_EQ(store.List(std::nullopt, 0, 1).second, infos[0].number);
  EXPECT_EQ(store.List(std::nullopt, infos[0].number, 1).first[0].handle, infos[1].handle);
}

// A store of names as a few lines have it.
struct Model {
  std::map<std::string, std::string> names;  // to bytes

  // By a name that is not its last, the name alone.
  void Release(const std::string& name) {
    const std::string bytes = names.at(name);
    const auto same = [&](const auto& each) { return each.second == bytes; };
    if (std::count_if(names.begin(), names.end(), same) > 1) {
      names.erase(name);
    } else {
      Forget(bytes);
    }
  }
  void Forget(const std::string& bytes) {
    for (auto each = names.begin(); each != names.end();) {
      each = each->second == bytes ? names.erase(each) : std::next(each);
    }
  }
};

TEST_F(NamesTest, AnyHistoryLeavesWhatAModelSays) {
  std::mt19937 random(7);
  const auto pick = [&](int count) { return static_cast<int>(random() % count); };
  Model model;
  for (int step = 0; step < 20000; ++step) {
    const StoredMatrix matrix(std::string(1 + static_cast<std::size_t>(pick(3)), 'x'));
    const std::string name(1, static_cast<char>('a' + pick(4)));
    switch (pick(5)) {
      case 0:
        Put(tenant_, matrix, 50 * kSecond).IgnoreError();
        break;
      case 1:
      case 2: {
        const bool replace = pick(2) == 1;
        const bool is_here = store.Get(tenant_, matrix.key()).ok();
        const auto taken = model.names.find(name);
        const bool is_others = taken != model.names.end() && taken->second != matrix.bytes;
        const auto named = store.SetName(tenant_, matrix.key(), name, replace);
        if (named.ok()) {
          EXPECT_TRUE(is_here && (replace || !is_others));
          EXPECT_EQ(!named->replaced_handle.empty(), is_others);
          model.names[name] = matrix.bytes;
        } else if (!absl::IsResourceExhausted(named.status())) {
          EXPECT_TRUE(!is_here || is_others) << named.status();
        }
        break;
      }
      case 3: {
        const bool is_known = model.names.count(name) != 0;
        EXPECT_EQ(store.Release(tenant_, ByName(name)).ok(), is_known);
        if (is_known) model.Release(name);
        break;
      }
      default:
        if (store.Release(tenant_, matrix.key()).ok()) model.Forget(matrix.bytes);
    }
    for (char c = 'a'; c < 'e'; ++c) {
      const auto known = model.names.find(std::string(1, c));
      const auto found = store.Get(tenant_, ByName(std::string(1, c)));
      ASSERT_EQ(found.ok(), known != model.names.end()) << "step " << step;
      if (found.ok()) {
        ASSERT_EQ(found->form.data.rows, static_cast<std::int64_t>(known->second.size()));
      }
    }
  }
  while (!model.names.empty()) {
    const std::string name = model.names.begin()->first;
    ASSERT_TRUE(store.Release(tenant_, ByName(name)).ok());
    model.Release(name);
  }
  for (std::size_t bytes = 1; bytes <= 3; ++bytes) {
    store.Release(tenant_, StoredMatrix(std::string(bytes, 'x')).key()).IgnoreError();
  }
  // Every place was given back.
  for (std::size_t bytes = 1; bytes <= 6; ++bytes) {
    EXPECT_TRUE(Put(tenant_, StoredMatrix(std::string(bytes, 'y'))).ok());
  }
}

}  // namespace
}  // namespace gemmd
