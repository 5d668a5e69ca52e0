// Models that are loaded from files while a server runs, without a server.
#include "server/preload/preload_repository.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/client/testing/weight_bytes.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using absl::StatusCode;
using testing::SafetensorsBytes;

class PreloadRepositoryTest : public ::testing::Test, protected testing::StoreFixture {
 protected:
  PreloadRepositoryTest() {
    limits_.request_bytes = 1 << 20;
    Write('\1');
    repository_ =
        std::make_unique<PreloadRepository>(directory_.Path(""), tenant_, limits_, &store);
    repository_->SetNames(*OpenPreload(directory_.Path("")));
  }

  // Writes a file of two equal matrices, "v" and "w".
  void Write(char value) {
    const std::string bytes(8, value);
    directory_.File("w.safetensors",
                    SafetensorsBytes({{"v", "I8", "[4,2]", bytes}, {"w", "I8", "[4,2]", bytes}}));
  }
  absl::Status Load(const std::string& name, const Tenant& tenant) {
    std::promise<absl::Status> done;
    repository_->Load(tenant, name, [&done](const absl::Status& s) { done.set_value(s); });
    return done.get_future().get();
  }
  std::string HandleOf(const std::string& name) {
    const absl::StatusOr<StoredInfo> info = store.Get(tenant_, OperandKey{{}, {}, name});
    return info.ok() ? info->handle : "";
  }

  RequestLimits limits_;
  const Tenant tenant_ = *Tenant::Named("a");
  testing::TemporaryDirectory directory_;
  std::unique_ptr<PreloadRepository> repository_;
};

TEST_F(PreloadRepositoryTest, IsItsTenantsAlone) {
  EXPECT_EQ(repository_->NamesFor(tenant_), (std::vector<std::string>{"v", "w"}));
  EXPECT_TRUE(repository_->NamesFor(Tenant()).empty());
  EXPECT_EQ(Load("w", Tenant()).code(), StatusCode::kNotFound);
  EXPECT_EQ(store.statistics().residents, 0U);
  EXPECT_EQ(Load("w", tenant_), absl::OkStatus());
  EXPECT_NE(HandleOf("w"), "");
  EXPECT_EQ(Load("x", tenant_).code(), StatusCode::kNotFound);
}

TEST_F(PreloadRepositoryTest, WithoutFilesThereIsNone) {
  PreloadRepository none("", tenant_, limits_, &store);
  absl::Status status;
  none.Load(tenant_, "w", [&status](const absl::Status& s) { status = s; });
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
}

TEST_F(PreloadRepositoryTest, WhatIsReplacedGoesUnlessItHasAnotherName) {
  ASSERT_TRUE(Load("v", tenant_).ok());
  ASSERT_TRUE(Load("w", tenant_).ok());
  const std::string before = HandleOf("w");
  EXPECT_EQ(HandleOf("v"), before) << "equal matrices are one operand";
  Write('\2');
  ASSERT_TRUE(Load("w", tenant_).ok());
  EXPECT_NE(HandleOf("w"), before);
  EXPECT_EQ(HandleOf("v"), before);
  EXPECT_EQ(store.statistics().residents, 2U);
  ASSERT_TRUE(Load("v", tenant_).ok());
  EXPECT_EQ(HandleOf("v"), HandleOf("w"));
  EXPECT_EQ(store.statistics().residents, 1U) << "what no name is left of goes";
}

TEST_F(PreloadRepositoryTest, ALoadedModelIsSafeFromEviction) {
  ASSERT_TRUE(Load("w", tenant_).ok());
  clock.Advance(1000000 * kSecond);
  EXPECT_FALSE(store.EvictFrom(&device));
  EXPECT_NE(HandleOf("w"), "");
}

TEST_F(PreloadRepositoryTest, AFileThatIsNotSoundIsNamed) {
  directory_.File("w.safetensors", "no weights");
  const absl::Status status = Load("w", tenant_);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(store.statistics().residents, 0U);
}

}  // namespace
}  // namespace gemmd
