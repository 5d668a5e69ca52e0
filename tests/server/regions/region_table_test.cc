#include "server/regions/region_table.h"

#include <atomic>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/tenants/retry_after.h"
#include "tests/server/regions/regions_fixture.h"

namespace gemmd {
namespace {

using absl::StatusCode;
using testing::SharedFile;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

class RegionTableTest : public RegionsFixture {
 protected:
  PosixRegion Whole() const { return {file_.name(), 0, kFileBytes}; }
  StatusCode RegisterCode(const PosixRegion& region, std::optional<TimeNs> lease = std::nullopt) {
    return table_.Register(region, lease).status().code();
  }
};

TEST_F(RegionTableTest, NothingIsTakenWithoutAPrefix) {
  RegionOptions options = Options();
  options.name_prefixes.clear();
  RegionTable off(options, {&device_}, &clock_, std::chrono::milliseconds(0));
  EXPECT_EQ(off.Register(Whole(), std::nullopt).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(off.Use("a.shared", "x").status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(RegionTableTest, NamesAreCheckedBeforeAnyFileIsOpened) {
  const std::string long_name = "gemmd-test-" + std::string(240, 'x');
  for (const std::string& name :
       {std::string(), std::string("gemmd-test-/x"), std::string("gemmd-test-../x"),
        std::string("gemmd-test-.."), std::string("gemmd-test-\0x", 13), long_name}) {
    EXPECT_EQ(RegisterCode({name, 0, 1}), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(RegisterCode({"other-name", 0, 1}), StatusCode::kPermissionDenied);
  EXPECT_EQ(RegisterCode({"gemmd-test-none", 0, 1}), StatusCode::kNotFound);
}

TEST_F(RegionTableTest, ANameMayBeginWithAnyOfThePrefixes) {
  RegionOptions options = Options();
  options.name_prefixes = {"others-", "gemmd-test-"};
  RegionTable table(options, {&device_}, &clock_, std::chrono::milliseconds(0));
  EXPECT_TRUE(table.Register(Whole(), std::nullopt).ok());
  const absl::Status refused = table.Register(PosixRegion{"neither", 0, 1}, std::nullopt).status();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(refused.message(),
            "posix.name is \"neither\"; this server takes names that begin with \"others-\" or "
            "\"gemmd-test-\" (shared_memory.name_prefix)");
}

TEST_F(RegionTableTest, RangesBeyondTheFileAreRefusedWithoutOverflow) {
  const std::string& name = file_.name();
  EXPECT_EQ(RegisterCode({name, 0, 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode({name, 1, kFileBytes}), StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode({name, kMax, 1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode({name, kMax, 2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode({name, 2, kMax - 1}), StatusCode::kResourceExhausted);
  const auto registered = table_.Register(PosixRegion{name, 4096, 4096}, std::nullopt);
  ASSERT_TRUE(registered.ok()) << registered.status();
  const auto region = table_.Use("a.shared", registered->id);
  ASSERT_TRUE(region.ok());
  EXPECT_TRUE((*region)->CheckRange("a.shared", 0, 4096).ok());
  EXPECT_TRUE((*region)->CheckRange("a.shared", 4096, 0).ok());
  for (const auto& [offset, bytes] :
       {std::pair{std::uint64_t{1}, std::uint64_t{4096}}, std::pair{kMax, std::uint64_t{1}},
        std::pair{std::uint64_t{4095}, kMax}, std::pair{kMax, kMax}}) {
    EXPECT_EQ((*region)->CheckRange("a.shared", offset, bytes).code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(RegionTableTest, LimitsCountWhatIsStillInUse) {
  const auto first = table_.Register(Whole(), std::nullopt);
  ASSERT_TRUE(first.ok());
  auto in_use = table_.Use("a.shared", first->id);
  ASSERT_TRUE(in_use.ok());
  ASSERT_TRUE(table_.Register(Whole(), std::nullopt).ok());
  EXPECT_EQ(RegisterCode(Whole()), StatusCode::kResourceExhausted);
  EXPECT_TRUE(table_.Unregister(first->id).ok());
  EXPECT_EQ(table_.Unregister(first->id).code(), StatusCode::kNotFound);
  EXPECT_EQ(RegisterCode(Whole()), StatusCode::kResourceExhausted);
  // Unregistered, and yet whole for whoever uses it.
  file_.Write(5, "bytes", 5);
  std::string read(5, '\0');
  EXPECT_TRUE((*in_use)->Read(5, read.data(), 5).ok());
  EXPECT_EQ(read, "bytes");
  in_use->reset();
  EXPECT_TRUE(table_.Register(Whole(), std::nullopt).ok());
}

TEST_F(RegionTableTest, ATenantFillsItsShareAndLeavesTheRest) {
  RegionOptions options = Options();
  options.max_regions = 3;
  options.max_bytes = kFileBytes;
  options.tenant_regions = 2;
  options.tenant_bytes = 6000;
  RegionTable table(options, {&device_}, &clock_, std::chrono::milliseconds(0));
  const auto take = [&](std::uint64_t bytes, const std::string& tenant) {
    return table.Register(PosixRegion{file_.name(), 0, bytes}, std::nullopt, *Tenant::Named(tenant))
        .status();
  };
  EXPECT_EQ(take(6001, "a").message(),
            "the tenant's share of bytes of regions is 6000, 0 are taken, and this takes 6001 "
            "(shared_memory.tenant_percent)");
  ASSERT_TRUE(take(6000, "a").ok());
  EXPECT_EQ(take(1, "a").code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(take(1, "b").ok());
  ASSERT_TRUE(take(1, "b").ok());
  clock_.Advance(options.default_lease);
  table.LookRound();
  ASSERT_TRUE(take(1, "a").ok());
  ASSERT_TRUE(take(1, "a").ok());
  EXPECT_EQ(take(1, "a").message(),
            "the tenant's share of regions is 2, 2 are taken, and this takes 1 "
            "(shared_memory.tenant_percent)");
  ASSERT_TRUE(take(1, "b").ok());
  const absl::Status full = take(1, "b");
  EXPECT_EQ(full.message(),
            "the limit of regions is 3, 3 are taken, and this takes 1 (shared_memory.max_regions)");
  EXPECT_EQ(RetryAfterMs(full), std::nullopt) << "nobody knows when a lease is not renewed";
}

// A tenant that has another's id has nothing.
TEST_F(RegionTableTest, ARegionIsItsTenantsAlone) {
  const Tenant a = *Tenant::Named("a");
  const Tenant b = *Tenant::Named("b");
  const auto registered = table_.Register(Whole(), std::nullopt, a);
  ASSERT_TRUE(registered.ok());
  const std::string& id = registered->id;
  EXPECT_EQ(table_.Get(id, b).status(), table_.Get("none", a).status());
  EXPECT_EQ(table_.Renew(id, std::nullopt, b).status(),
            table_.Renew("none", std::nullopt, a).status());
  EXPECT_EQ(table_.Use("a.shared", id, b).status(), table_.Use("a.shared", "none", a).status());
  EXPECT_EQ(table_.Unregister(id, b), table_.Unregister("none", a));
  EXPECT_TRUE(table_.Get(id, a).ok());
  EXPECT_TRUE(table_.Use("a.shared", id, a).ok());
  EXPECT_TRUE(table_.Unregister(id, a).ok());
}

TEST_F(RegionTableTest, ARegionCountsInItsTenantsQuotaUntilNobodyUsesIt) {
  Quotas quotas(&clock_);
  RegionOptions options = Options();
  options.quotas = &quotas;
  RegionTable table(options, {&device_}, &clock_, std::chrono::milliseconds(0));
  Quota quota;
  quota.account = "a";
  quota.limits[static_cast<std::size_t>(Quantity::kRegions)] = 1;
  const Tenant a = Tenant::Named("a")->With(std::make_shared<const Quota>(quota));
  const auto first = table.Register(Whole(), std::nullopt, a);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(table.Register(Whole(), std::nullopt, a).status().message(),
            "the tenant's quota of regions is 1, 1 are taken, and this takes 1");
  EXPECT_FALSE(
      table.Register(PosixRegion{"gemmd-test-none", 0, 1}, std::nullopt, *Tenant::Named("b")).ok());
  {
    const auto used = table.Use("a.shared", first->id, a);
    ASSERT_TRUE(table.Unregister(first->id, a).ok());
    EXPECT_FALSE(table.Register(Whole(), std::nullopt, a).ok());
  }
  EXPECT_TRUE(table.Register(Whole(), std::nullopt, a).ok());
}

TEST_F(RegionTableTest, LeasesEndUnlessUsedOrRenewed) {
  const auto used = table_.Register(Whole(), std::nullopt);
  const auto renewed = table_.Register(Whole(), 2000);
  ASSERT_TRUE(used.ok() && renewed.ok());
  EXPECT_EQ(used->lease, 1000);
  clock_.Advance(999);
  EXPECT_TRUE(table_.Use("a.shared", used->id).ok());
  EXPECT_EQ(table_.Renew(renewed->id, std::nullopt).value(), 2000);
  EXPECT_EQ(table_.Renew(renewed->id, 5000).value(), 5000);
  EXPECT_EQ(table_.Renew(renewed->id, 5001).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(table_.Renew(renewed->id, 0).status().code(), StatusCode::kInvalidArgument);
  clock_.Advance(999);
  EXPECT_EQ(table_.Get(used->id)->lease_remaining, 1);
  clock_.Advance(1);
  EXPECT_EQ(table_.Use("a.shared", used->id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table_.Renew(used->id, std::nullopt).status().code(), StatusCode::kNotFound);
  const absl::StatusOr<RegionInfo> info = table_.Get(renewed->id);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->name, file_.name());
  EXPECT_EQ(info->lease_remaining, 4000);
  EXPECT_FALSE(info->in_use);
  EXPECT_EQ(table_.Get(used->id).status().code(), StatusCode::kNotFound);
  table_.LookRound();
  EXPECT_EQ(table_.usage().regions, 1U);
}

TEST_F(RegionTableTest, AFileCutShortIsAnErrorThatNamesIt) {
  const auto registered = table_.Register(Whole(), std::nullopt);
  const auto region = table_.Use("a.shared", registered->id);
  ASSERT_TRUE(region.ok());
  std::string bytes(kFileBytes, '\0');
  EXPECT_TRUE((*region)->CheckFile().ok());
  file_.Resize(kFileBytes - 1);
  EXPECT_EQ((*region)->CheckFile().code(), StatusCode::kFailedPrecondition);
  file_.Resize(4096);
  EXPECT_EQ((*region)->CheckFile().code(), StatusCode::kFailedPrecondition);
  const absl::Status status = (*region)->Read(0, bytes.data(), kFileBytes);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find(file_.name()), std::string::npos) << status;
  EXPECT_TRUE((*region)->Read(0, bytes.data(), 4096).ok());
}

TEST_F(RegionTableTest, OverlapIsOfTheFileAndNotOfTheRegistration) {
  const auto whole = table_.Register(Whole(), std::nullopt);
  const auto half = table_.Register(PosixRegion{file_.name(), 4096, 4096}, std::nullopt);
  const auto x = *table_.Use("a.shared", whole->id);
  const auto y = *table_.Use("b.shared", half->id);
  EXPECT_TRUE(x->Overlaps(0, 4097, *y, 0, 1));
  EXPECT_FALSE(x->Overlaps(0, 4096, *y, 0, 4096));
  EXPECT_FALSE(y->Overlaps(0, 4096, *x, 0, 4096));
  EXPECT_TRUE(y->Overlaps(4095, 1, *x, 8191, 1));
}

TEST_F(RegionTableTest, OtherFilesAreOtherMemory) {
  SharedFile other(kFileBytes);
  const auto mine = table_.Register(Whole(), std::nullopt);
  const auto theirs = table_.Register(PosixRegion{other.name(), 0, kFileBytes}, std::nullopt);
  const auto x = *table_.Use("a.shared", mine->id);
  const auto y = *table_.Use("b.shared", theirs->id);
  EXPECT_FALSE(x->Overlaps(0, kFileBytes, *y, 0, kFileBytes));
}

TEST_F(RegionTableTest, LimitsMayBeFilled) {
  RegionOptions options = Options();
  options.max_bytes = kFileBytes;
  RegionTable table(options, {&device_}, &clock_, std::chrono::milliseconds(0));
  const auto registered = table.Register(Whole(), options.max_lease);
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->lease, options.max_lease);
  EXPECT_EQ(table.Register(PosixRegion{file_.name(), 0, 1}, std::nullopt).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(table.Unregister(registered->id).ok());
  EXPECT_EQ(table.usage().bytes, 0u);
  EXPECT_TRUE(table.Register(Whole(), std::nullopt).ok());
}

TEST_F(RegionTableTest, ManyClientsAtOnceLeaveNothingBehind) {
  RegionOptions options = Options();
  options.max_regions = 3;  // fewer than there are clients
  RegionTable table(options, {&device_}, &clock_, std::chrono::milliseconds(1));
  std::vector<std::thread> clients;
  std::atomic<int> registered{0};
  for (unsigned seed = 0; seed < 4; ++seed) {
    clients.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::string bytes(16, '\0');
      for (int i = 0; i < 300; ++i) {
        const auto mine = table.Register(PosixRegion{file_.name(), random() % 4096, 16},
                                         1 + static_cast<TimeNs>(random() % 100));
        clock_.Advance(random() % 20);
        if (!mine.ok()) {
          EXPECT_EQ(mine.status().code(), StatusCode::kResourceExhausted);
          continue;
        }
        ++registered;
        // Its lease may run out at any moment; what is in use stays whole.
        const auto used = table.Use("a.shared", mine->id);
        if (random() % 2 == 0) static_cast<void>(table.Unregister(mine->id));
        static_cast<void>(table.Renew(mine->id, std::nullopt));
        const absl::StatusOr<RegionInfo> info = table.Get(mine->id);
        if (info.ok()) {
          EXPECT_EQ(info->bytes, 16U);
        }
        if (used.ok()) {
          EXPECT_TRUE((*used)->Write(0, bytes.data(), 16).ok());
          EXPECT_TRUE((*used)->Read(0, bytes.data(), 16).ok());
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(registered, 0);
  clock_.Advance(options.max_lease);
  table.LookRound();
  while (table.usage().regions != 0) {
    // The table's own thread may be about to let go of some.
  }
  EXPECT_EQ(table.usage().bytes, 0U);
}

TEST_F(RegionTableTest, MemoryOfGpusIsRefusedUnlessSwitchedOn) {
  const CudaRegion region{std::string(64, 'h'), 0, 0, 16};
  EXPECT_EQ(table_.Register(region, std::nullopt).status().code(), StatusCode::kPermissionDenied);
  RegionOptions options = Options();
  options.cuda_ipc = true;
  RegionTable on(options, {&device_}, &clock_, std::chrono::milliseconds(0));
  EXPECT_EQ(on.Register(region, std::nullopt).status().code(), StatusCode::kFailedPrecondition);
  CudaRegion bad = region;
  bad.device = 1;
  EXPECT_EQ(on.Register(bad, std::nullopt).status().code(), StatusCode::kInvalidArgument);
  bad = region;
  bad.handle.pop_back();
  EXPECT_EQ(on.Register(bad, std::nullopt).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gemmd
