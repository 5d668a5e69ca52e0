#include "server/store/operand_store.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using testing::SmallStore;
using testing::StoredMatrix;

class OperandStoreTest : public ::testing::Test, protected testing::StoreFixture {
 protected:
  // Everything that was ever held is given back when the last entry goes.
  ~OperandStoreTest() override {
    clock.Advance(1000 * kSecond);
    while (store.EvictFrom(&device)) {
    }
    EXPECT_EQ(store.statistics().reserved_bytes, 0u);
    EXPECT_EQ(device.memory().usage().resident_bytes, 0u);
  }

  const Tenant tenant_ = *Tenant::Named("a");
  const Tenant other_ = *Tenant::Named("b");
};

TEST_F(OperandStoreTest, WhatWasPutIsFoundByHandleAndDigest) {
  const StoredMatrix matrix("some bytes");
  const auto handle = Put(tenant_, matrix);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(*handle, "0000abcd-1");
  EXPECT_EQ(BytesOf(tenant_, {*handle, {}}), "some bytes");
  EXPECT_EQ(BytesOf(tenant_, matrix.key()), "some bytes");
  EXPECT_EQ(device.memory().usage().resident_bytes, 10u);
  const StoredInfo info = *store.Get(tenant_, {*handle, {}});
  EXPECT_EQ(info.digest, ToBytes(matrix.digest));
  EXPECT_EQ(info.lease_remaining, 10 * kSecond);
  EXPECT_EQ(info.device_bytes, 10u);
}

TEST_F(OperandStoreTest, WhatIsKeptStaysWhereTheLimitsFallBelowIt) {
  const StoredMatrix large(std::string(500, 'x'));
  const StoredMatrix small(std::string(10, 'y'));
  ASSERT_TRUE(Put(tenant_, large).ok());
  StoreOptions options = SmallStore();
  options.all = options.tenant = {8, 400};
  store.SetLimits(options);
  EXPECT_EQ(store.statistics().limit_bytes, 400u);
  EXPECT_EQ(Put(tenant_, small).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(BytesOf(tenant_, large.key()), large.bytes);
  const absl::Status never = Put(tenant_, StoredMatrix(std::string(401, 'z'))).status();
  EXPECT_EQ(never.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(never.message(), "the limit of bytes of operands is 400, and this takes 401");
  ASSERT_TRUE(store.Release(tenant_, large.key()).ok());
  EXPECT_TRUE(Put(tenant_, small).ok());
}

TEST_F(OperandStoreTest, TheSameMatrixIsStoredOnceForEachTenant) {
  const StoredMatrix matrix("same");
  const std::string handle = *Put(tenant_, matrix);
  EXPECT_EQ(*Put(tenant_, matrix), handle);
  EXPECT_EQ(store.statistics().uploaded_bytes, 4u);
  EXPECT_NE(*Put(other_, matrix), handle);
  EXPECT_EQ(store.statistics().resident_bytes, 8u);
}

TEST_F(OperandStoreTest, AnotherTenantsOperandsAreAsUnknownAsAny) {
  const StoredMatrix matrix("mine");
  const std::string handle = *Put(tenant_, matrix);
  const absl::Status status = store.Use(other_, {handle, {}}, "a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "a.handle is \"0000abcd-1\": the server has no such operand");
  EXPECT_EQ(MissingOf(status).handles, std::vector<std::string>{handle});
  EXPECT_EQ(MissingOf(store.Use(other_, matrix.key(), "b").status()).digests,
            std::vector<std::string>{ToBytes(matrix.digest)});
  EXPECT_FALSE(store.Release(other_, {handle, {}}).ok());
  EXPECT_FALSE(store.Renew(other_, {handle, {}}, 1).ok());
  EXPECT_FALSE(store.Get(other_, matrix.key()).ok());
  EXPECT_TRUE(store.List(other_, 0, 10).first.empty());
  EXPECT_EQ(store.FindMissing(other_, matrix.key().digest)->size(), 0u);
  EXPECT_EQ(store.statistics().misses, 2u);
}

TEST_F(OperandStoreTest, ABrokenUploadGoesOnWhereItEnded) {
  const StoredMatrix matrix(std::string(100, 'x'));
  auto first = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  EXPECT_EQ(store.FindMissing(tenant_, matrix.key().digest)->size(), 0u);  // all of it, as of any
  EXPECT_FALSE(*Send(first.get(), matrix, 0, 30));
  EXPECT_FALSE(*Send(first.get(), matrix, 50, 60));
  first.reset();  // the stream broke
  const auto missing = store.FindMissing(tenant_, matrix.key().digest);
  ASSERT_EQ(missing->size(), 2u);
  EXPECT_EQ((*missing)[0].bytes.begin, 30u);
  EXPECT_EQ((*missing)[0].bytes.end, 50u);
  EXPECT_EQ((*missing)[1].bytes.begin, 60u);
  EXPECT_EQ((*missing)[1].bytes.end, 100u);
  auto second = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  EXPECT_FALSE(*Send(second.get(), matrix, 30, 50));
  EXPECT_EQ(second->End().message(),
            "the upload ended with 60 of 100 bytes; the next one missing is 60 of data");
  EXPECT_TRUE(*Send(second.get(), matrix, 55, 100));
  EXPECT_TRUE(second->End().ok());
  EXPECT_FALSE(store.FindMissing(tenant_, matrix.key().digest).has_value());
  EXPECT_EQ(store.statistics().uploaded_bytes, 100u);
  EXPECT_EQ(store.statistics().repeated_bytes, 5u);
  EXPECT_EQ(BytesOf(tenant_, matrix.key()), matrix.bytes);
}

TEST_F(OperandStoreTest, ManyGapsAreToldInFewRangesThatMendThem) {
  const StoredMatrix matrix(std::string(400, 'x'));
  auto stream = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  for (std::uint64_t at = 0; at < 400; at += 2) {
    EXPECT_FALSE(*Send(stream.get(), matrix, at, at + 1));
  }
  const auto missing = store.FindMissing(tenant_, matrix.key().digest);
  ASSERT_EQ(missing->size(), 64U);
  EXPECT_EQ(missing->front().bytes.begin, 1U);
  EXPECT_EQ(missing->front().bytes.end, 2U);
  EXPECT_EQ(missing->back().bytes.begin, 127U);
  EXPECT_EQ(missing->back().bytes.end, 400U);
  for (const MissingRange& range : *missing) {
    EXPECT_EQ(*Send(stream.get(), matrix, range.bytes.begin, range.bytes.end),
              range.bytes.end == 400);
  }
  EXPECT_TRUE(stream->End().ok());
}

TEST_F(OperandStoreTest, AnUploadOfTinyChunksEnds) {
  const StoredMatrix matrix(std::string(400, 'x'));
  auto stream = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  for (int i = 0; i < 1024; ++i) EXPECT_FALSE(*Send(stream.get(), matrix, 0, 1));
  const absl::Status status = Send(stream.get(), matrix, 0, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "the upload has 1025 chunks of 1025 bytes together; it may have 1024 of them, and one "
            "more for each 4096 bytes");
}

TEST_F(OperandStoreTest, TwoStreamsBringOneOperand) {
  const StoredMatrix matrix("0123456789");
  auto x = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  auto y = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  EXPECT_FALSE(*Send(x.get(), matrix, 0, 5));
  EXPECT_TRUE(*Send(y.get(), matrix, 4, 10));
  EXPECT_TRUE(x->End().ok());
  EXPECT_EQ(x->info().handle, y->info().handle);
  EXPECT_EQ(device.memory().usage().resident_bytes, 10u);
}

TEST_F(OperandStoreTest, OtherBytesThanTheDigestSaysAreNotKept) {
  const StoredMatrix matrix("right");
  auto stream = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  const absl::Status status = Send(stream.get(), StoredMatrix("wrong"), 0, 5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("begin.digest"), std::string::npos);
  stream.reset();
  EXPECT_EQ(store.statistics().reserved_bytes, 0u);
  EXPECT_EQ(store.statistics().partial_uploads, 0u);
}

TEST_F(OperandStoreTest, BadChunksAndBeginsAreNamed) {
  const StoredMatrix matrix("0123456789");
  auto stream = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  const absl::string_view piece = "abc";
  EXPECT_EQ(stream->Receive({PlaneName::kScales, 0, {&piece, 1}}).status().message(),
            "chunk.plane is scales, which the operand does not have");
  EXPECT_EQ(stream->Receive({PlaneName::kData, 8, {&piece, 1}}).status().message(),
            "a chunk of 3 bytes is at offset 8 of data, which has 10 bytes");
  constexpr std::uint64_t kFar = std::numeric_limits<std::uint64_t>::max() - 1;
  EXPECT_FALSE(stream->Receive({PlaneName::kData, kFar, {&piece, 1}}).ok());
  EXPECT_EQ(
      store.BeginUpload(tenant_, matrix.digest, StoredMatrix("x").form, {}).status().message(),
      "begin.operand is not what an earlier upload of this digest began with");
  OperandForm scaled = matrix.form;
  scaled.scales = MatrixLayout{DataType::kF32, 1, 1, Order::kRowMajor, 1};
  EXPECT_FALSE(store.BeginUpload(tenant_, matrix.digest, scaled, {}).ok());
  EXPECT_EQ(
      store.BeginUpload(tenant_, matrix.digest, matrix.form, 101 * kSecond).status().message(),
      "lease is 1m41s; it must be 0s to 1m40s");
  EXPECT_FALSE(store.BeginUpload(tenant_, matrix.digest, matrix.form, -1).ok());
}

// Equal bytes with other blocks are another matrix.
TEST_F(OperandStoreTest, BlocksTellOperandsApart) {
  OperandForm form;
  form.data = {DataType::kInt8, 2, 64, Order::kRowMajor, 64};
  form.scales = MatrixLayout{DataType::kF32, 2, 2, Order::kRowMajor, 2};
  form.blocks = BlockScaling{32, 1};
  OperandForm other = form;
  other.blocks = BlockScaling{48, 1};
  const std::vector<std::string> planes = {std::string(128, 'x'), std::string(16, '\0')};
  const Sha256Digest digest = testing::DigestOfBytes(form, planes);
  EXPECT_NE(digest, testing::DigestOfBytes(other, planes));
  const auto stream = store.BeginUpload(tenant_, digest, form, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(store.BeginUpload(tenant_, digest, other, {}).status().message(),
            "begin.operand is not what an earlier upload of this digest began with");
  EXPECT_TRUE(store.BeginUpload(tenant_, digest, form, {}).ok());
}

TEST_F(OperandStoreTest, ScalesMustBeFinite) {
  for (const float scale : {-1.0f, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), 0.5f}) {
    OperandForm form;
    form.data = {DataType::kInt8, 2, 1, Order::kRowMajor, 1};
    form.scales = MatrixLayout{DataType::kF32, 1, 1, Order::kRowMajor, 1};
    const std::string data = "xy";
    const std::string scales(reinterpret_cast<const char*>(&scale), sizeof scale);
    const Sha256Digest digest = testing::DigestOfBytes(form, {data, scales});
    auto stream = *store.BeginUpload(tenant_, digest, form, std::nullopt);
    const absl::string_view piece = scales;
    ASSERT_FALSE(*stream->Receive({PlaneName::kScales, 0, {&piece, 1}}));
    const absl::string_view rest = data;
    const auto last = stream->Receive({PlaneName::kData, 0, {&rest, 1}});
    EXPECT_EQ(last.ok(), std::isfinite(scale)) << scale << " " << last.status();
  }
}

TEST_F(OperandStoreTest, OffsetsMustBeFinite) {
  for (const float offset : {-1.0f, std::numeric_limits<float>::infinity(), 0.5f}) {
    OperandForm form;
    form.data = {DataType::kInt8, 1, 16, Order::kRowMajor, 16};
    form.scales = form.offsets = MatrixLayout{DataType::kF32, 1, 1, Order::kRowMajor, 1};
    form.blocks = BlockScaling{16, 1, false};
    const std::string data(16, 'x');
    const std::string scales(4, '\0');
    const std::string offsets(reinterpret_cast<const char*>(&offset), sizeof offset);
    const Sha256Digest digest = testing::DigestOfBytes(form, {data, scales, "", "", offsets});
    auto stream = *store.BeginUpload(tenant_, digest, form, std::nullopt);
    absl::string_view piece = scales;
    ASSERT_FALSE(*stream->Receive({PlaneName::kScales, 0, {&piece, 1}}));
    piece = offsets;
    ASSERT_FALSE(*stream->Receive({PlaneName::kOffsets, 0, {&piece, 1}}));
    piece = data;
    const auto last = stream->Receive({PlaneName::kData, 0, {&piece, 1}});
    EXPECT_EQ(last.ok(), std::isfinite(offset)) << offset << " " << last.status();
  }
}

TEST_F(OperandStoreTest, TheUnleasedGoWhenRoomIsNeededAndTheLeasedNever) {
  const StoredMatrix first(std::string(300, '1'));
  const StoredMatrix second(std::string(200, '2'));
  const StoredMatrix third(std::string(400, '3'));
  ASSERT_TRUE(Put(tenant_, first).ok());
  clock.Advance(kSecond);
  ASSERT_TRUE(Put(tenant_, second).ok());
  const absl::Status full = Put(tenant_, third).status();  // the quota is 600
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "the tenant's share of bytes of operands is 600, 500 are taken, and this takes 400");
  clock.Advance(9 * kSecond);  // the first's lease is over
  ASSERT_TRUE(Put(tenant_, third).ok());
  EXPECT_FALSE(store.Get(tenant_, first.key()).ok());
  EXPECT_TRUE(store.Get(tenant_, second.key()).ok());
  EXPECT_EQ(store.statistics().evictions, 1u);
}

TEST_F(OperandStoreTest, AQuotaEvictsNobodyElsesOperands) {
  const StoredMatrix mine(std::string(600, '1'));
  const StoredMatrix theirs(std::string(300, '2'));
  ASSERT_TRUE(Put(other_, theirs, 0).ok());
  ASSERT_TRUE(Put(tenant_, mine).ok());
  EXPECT_FALSE(Put(tenant_, StoredMatrix("x")).ok());
  EXPECT_TRUE(store.Get(other_, theirs.key()).ok());
  // The store's own limit does: 900 of 1000 are taken.
  const Tenant third = *Tenant::Named("c");
  EXPECT_TRUE(Put(third, StoredMatrix(std::string(200, '3'))).ok());
  EXPECT_FALSE(store.Get(other_, theirs.key()).ok());
}

// The store keeps 1000 bytes in all, and 600 of each tenant.
TEST_F(OperandStoreTest, AStoreAndAQuotaTakeWhatFillsThemExactly) {
  ASSERT_TRUE(Put(tenant_, StoredMatrix(std::string(350, '1'))).ok());
  ASSERT_TRUE(Put(tenant_, StoredMatrix(std::string(250, '2'))).ok());
  ASSERT_TRUE(Put(other_, StoredMatrix(std::string(400, '3'))).ok());
  EXPECT_EQ(store.statistics().reserved_bytes, 1000u);
  EXPECT_EQ(Put(other_, StoredMatrix("4")).status().message(),
            "the limit of bytes of operands is 1000, 1000 are taken, and this takes 1");
  EXPECT_EQ(store.statistics().evictions, 0u);
}

TEST_F(OperandStoreTest, WhatNeverFitsIsTheRequestsFault) {
  const absl::Status status = Put(tenant_, StoredMatrix(std::string(601, 'x'))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the tenant's share of bytes of operands is 600, and this takes 601");
}

TEST_F(OperandStoreTest, TheNumberOfOperandsIsBounded) {
  // The store keeps 8 operands in all, and 6 of each tenant.
  ASSERT_TRUE(Put(other_, StoredMatrix("1"), 0).ok());
  for (char c = 'a'; c < 'g'; ++c) ASSERT_TRUE(Put(tenant_, StoredMatrix(std::string(1, c))).ok());
  EXPECT_EQ(Put(tenant_, StoredMatrix("z")).status().message(),
            "the tenant's share of operands and names is 6, 6 are taken, and this takes 1");
  EXPECT_TRUE(store.Get(other_, StoredMatrix("1").key()).ok());  // though its lease is over
  ASSERT_TRUE(Put(other_, StoredMatrix("2")).ok());
  ASSERT_TRUE(store.Renew(other_, StoredMatrix("1").key(), kSecond).ok());
  EXPECT_EQ(Put(other_, StoredMatrix("3")).status().message(),
            "the limit of operands and names is 8, 8 are taken, and this takes 1");
  clock.Advance(10 * kSecond);
  EXPECT_TRUE(Put(tenant_, StoredMatrix("z")).ok());
  EXPECT_TRUE(Put(other_, StoredMatrix("3")).ok());
}

TEST_F(OperandStoreTest, ResultsToComeAndWhatIsStillInUseAreCounted) {
  const MatrixLayout d{DataType::kInt8, 2, 2, Order::kRowMajor, 2};
  std::vector<std::unique_ptr<PendingResult>> results;
  for (int i = 0; i < 5; ++i) {
    results.push_back(*store.BeginResult(tenant_, d, std::nullopt, &device));
  }
  const StoredMatrix matrix("x");
  ASSERT_TRUE(Put(tenant_, matrix).ok());
  auto used = *store.Use(tenant_, matrix.key(), "a");
  ASSERT_TRUE(store.Release(tenant_, matrix.key()).ok());
  EXPECT_FALSE(store.BeginResult(tenant_, d, std::nullopt, &device).ok());
  used.reset();
  EXPECT_TRUE(store.BeginResult(tenant_, d, std::nullopt, &device).ok());
}

TEST_F(OperandStoreTest, WhatIsInUseStaysInMemoryAndIsNotEvicted) {
  const StoredMatrix matrix(std::string(600, 'x'));
  ASSERT_TRUE(Put(tenant_, matrix, 0).ok());
  auto used = *store.Use(tenant_, matrix.key(), "a");
  EXPECT_FALSE(store.EvictFrom(&device));
  EXPECT_FALSE(Put(tenant_, StoredMatrix("y")).ok());
  ASSERT_TRUE(store.Release(tenant_, matrix.key()).ok());
  EXPECT_FALSE(store.Get(tenant_, matrix.key()).ok());
  EXPECT_EQ(store.statistics().reserved_bytes, 600u);
  EXPECT_EQ(used->Whole(PlaneName::kData)->data[599], 'x');
  used.reset();
  EXPECT_EQ(store.statistics().reserved_bytes, 0u);
  EXPECT_EQ(device.memory().usage().resident_bytes, 0u);
}

// Its tenant would else have any number of them, by releasing each while it is downloaded.
TEST_F(OperandStoreTest, WhatIsReleasedCountsUntilNobodyHasItsMemory) {
  const StoredMatrix matrix(std::string(400, 'x'));
  const StoredMatrix next(std::string(400, 'y'));
  ASSERT_TRUE(Put(tenant_, matrix).ok());
  HostBuffer download = *(*store.Read(tenant_, matrix.key()))->Planes(PlaneName::kData);
  ASSERT_TRUE(store.Release(tenant_, matrix.key()).ok());
  EXPECT_EQ(store.statistics().reserved_bytes, 400u);
  EXPECT_EQ(Put(tenant_, next).status().code(), absl::StatusCode::kResourceExhausted);
  download.clear();
  EXPECT_EQ(store.statistics().reserved_bytes, 0u);
  EXPECT_TRUE(Put(tenant_, next).ok());
}

TEST_F(OperandStoreTest, AResultThatIsReleasedCountsUntilNobodyHasItsMemory) {
  const MatrixLayout d{DataType::kInt8, 20, 20, Order::kRowMajor, 20};
  const std::string handle = store.Keep(*store.BeginResult(tenant_, d, std::nullopt, &device));
  HostBuffer download = *(*store.Read(tenant_, {handle, {}}))->Planes(PlaneName::kData);
  ASSERT_TRUE(store.Release(tenant_, {handle, {}}).ok());
  EXPECT_EQ(store.statistics().reserved_bytes, 400u);
  EXPECT_FALSE(store.BeginResult(tenant_, d, std::nullopt, &device).ok());
  download.clear();
  EXPECT_EQ(store.statistics().reserved_bytes, 0u);
}

// To evict what a download has would give nothing back, and others would go next, for nothing too.
TEST_F(OperandStoreTest, WhatIsLentIsNotEvicted) {
  const StoredMatrix matrix(std::string(400, 'x'));
  ASSERT_TRUE(Put(tenant_, matrix, 0).ok());
  const HostPiece download = *(*store.Read(tenant_, matrix.key()))->Whole(PlaneName::kData);
  EXPECT_FALSE(store.EvictFrom(&device));
  EXPECT_EQ(Put(tenant_, StoredMatrix(std::string(400, 'y'))).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(store.Get(tenant_, matrix.key()).ok());
}

TEST_F(OperandStoreTest, AnUploadStaysForAsLongAsWhatCameIsWorth) {
  StoreOptions options = SmallStore();
  options.upload_grace = 2 * kSecond;
  testing::StoreFixture fixture(options);
  const StoredMatrix matrix(std::string(400, 'x'));
  const auto begin = [&](const StoredMatrix& each) {
    return *fixture.store.BeginUpload(tenant_, each.digest, each.form, std::nullopt);
  };
  auto upload = begin(matrix);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(fixture.store.EvictFrom(&fixture.device)) << i;
    // Neither beginning again nor asking brings a byte.
    begin(matrix);
    fixture.store.FindMissing(tenant_, matrix.key().digest);
    fixture.clock.Advance(kSecond / 2);
  }
  EXPECT_TRUE(fixture.store.EvictFrom(&fixture.device));
  upload = begin(matrix);
  EXPECT_FALSE(*fixture.Send(upload.get(), matrix, 0, 200));  // half of it, for half of 20 s
  fixture.clock.Advance(9 * kSecond);
  EXPECT_FALSE(*fixture.Send(upload.get(), matrix, 0, 200));  // again, which is nothing new
  EXPECT_FALSE(fixture.store.EvictFrom(&fixture.device));
  fixture.clock.Advance(kSecond);
  EXPECT_TRUE(fixture.store.EvictFrom(&fixture.device));
}

// Names are free: a share of each would bound nobody.
TEST(OperandStore, AnAddressHasOneShareWhateverNamesItsClientsClaim) {
  StoreOptions options = SmallStore();
  options.address = StoreShare{6, 600};
  options.proxies = {"10.0.0.9"};
  testing::StoreFixture fixture(options);
  const auto put = [&fixture](const Tenant& tenant, char content,
                              std::optional<TimeNs> lease = {}) {
    return fixture.Put(tenant, StoredMatrix(std::string(300, content)), lease).status();
  };
  const Tenant first = Tenant::Named("first")->At("10.0.0.1");
  const Tenant second = Tenant::Named("second")->At("10.0.0.1");
  ASSERT_TRUE(put(first, 'a').ok());
  ASSERT_TRUE(put(second, 'b', 0).ok());
  // Only an operand of the same address that has no lease makes room.
  ASSERT_TRUE(put(first, 'c').ok());
  EXPECT_EQ(fixture.store.statistics().evictions, 1u);
  const absl::Status full = put(second, 'd');
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "the share of address 10.0.0.1 of bytes of operands is 600, 600 are taken, and this "
            "takes 300");
  EXPECT_TRUE(put(Tenant::Named("second")->At("10.0.0.2"), 'd').ok());
  ASSERT_TRUE(fixture.store.Release(first, StoredMatrix(std::string(300, 'a')).key()).ok());
  // A tenant that proves its name has that name's share, wherever it is, and so have clients of a
  // proxy.
  EXPECT_TRUE(put(Tenant::Authenticated("third").At("10.0.0.1"), 'e').ok());
}

TEST_F(OperandStoreTest, UsesAndRenewalsKeepALease) {
  const StoredMatrix matrix("x");
  const std::string handle = *Put(tenant_, matrix, 5 * kSecond);
  clock.Advance(4 * kSecond);
  store.Use(tenant_, {handle, {}}, "a").status().IgnoreError();
  clock.Advance(4 * kSecond);
  EXPECT_FALSE(store.EvictFrom(&device));
  EXPECT_EQ(*store.Renew(tenant_, {handle, {}}, 50 * kSecond), 50 * kSecond);
  clock.Advance(49 * kSecond);
  EXPECT_FALSE(store.EvictFrom(&device));
  EXPECT_EQ(*store.Renew(tenant_, {handle, {}}, std::nullopt), 50 * kSecond);
  EXPECT_FALSE(store.Renew(tenant_, {handle, {}}, 101 * kSecond).ok());
  clock.Advance(50 * kSecond);
  EXPECT_TRUE(store.EvictFrom(&device));
}

TEST_F(OperandStoreTest, PuttingItAgainMayLengthenALeaseAndNotShortenIt) {
  const StoredMatrix matrix("x");
  ASSERT_TRUE(Put(tenant_, matrix, 50 * kSecond).ok());
  ASSERT_TRUE(Put(tenant_, matrix, 5 * kSecond).ok());
  EXPECT_EQ(store.Get(tenant_, matrix.key())->lease, 50 * kSecond);
  ASSERT_TRUE(Put(tenant_, matrix, 60 * kSecond).ok());
  EXPECT_EQ(store.Get(tenant_, matrix.key())->lease, 60 * kSecond);
}

TEST_F(OperandStoreTest, AnAbandonedUploadGivesItsMemoryBackThoughItsStreamHangs) {
  const StoredMatrix matrix(std::string(500, 'x'));
  auto hanging = *store.BeginUpload(tenant_, matrix.digest, matrix.form, std::nullopt);
  EXPECT_FALSE(*Send(hanging.get(), matrix, 0, 100));
  clock.Advance(19 * kSecond);
  EXPECT_FALSE(Put(tenant_, StoredMatrix(std::string(400, 'y'))).ok());
  EXPECT_FALSE(*Send(hanging.get(), matrix, 100, 101));  // renews
  clock.Advance(19 * kSecond);
  EXPECT_FALSE(Put(tenant_, StoredMatrix(std::string(400, 'y'))).ok());
  clock.Advance(kSecond);
  EXPECT_TRUE(Put(tenant_, StoredMatrix(std::string(400, 'y'))).ok());
  EXPECT_EQ(device.memory().usage().resident_bytes, 400u);
  const absl::Status status = Send(hanging.get(), matrix, 101, 102).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(hanging->End().ok());
}

TEST_F(OperandStoreTest, ListsInOrderAndInPages) {
  for (const char* each : {"a", "b", "c", "d"}) ASSERT_TRUE(Put(tenant_, StoredMatrix(each)).ok());
  ASSERT_TRUE(Put(other_, StoredMatrix("e")).ok());
  const StoredMatrix partial("partial");
  auto stream = *store.BeginUpload(tenant_, partial.digest, partial.form, std::nullopt);
  const auto [page, next] = store.List(tenant_, 0, 3);
  ASSERT_EQ(page.size(), 3u);
  EXPECT_EQ(page[0].digest, StoredMatrix("a").key().digest);
  ASSERT_NE(next, 0u);
  ASSERT_TRUE(store.Release(tenant_, StoredMatrix("c").key()).ok());
  const auto [rest, end] = store.List(tenant_, next, 3);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].digest, StoredMatrix("d").key().digest);
  EXPECT_EQ(end, 0u);
}

TEST_F(OperandStoreTest, AResultStaysUnderAHandleAlone) {
  const MatrixLayout d{DataType::kInt8, 2, 2, Order::kRowMajor, 2};
  auto dropped = *store.BeginResult(tenant_, d, std::nullopt, &device);
  EXPECT_EQ(store.statistics().reserved_bytes, 4u);
  dropped.reset();
  EXPECT_EQ(store.statistics().reserved_bytes, 0u);
  auto result = *store.BeginResult(tenant_, d, std::nullopt, &device);
  std::memcpy(result->memory().front().data, "wxyz", 4);
  const std::string handle = store.Keep(std::move(result));
  EXPECT_EQ(BytesOf(tenant_, {handle, {}}), "wxyz");
  EXPECT_EQ(store.Get(tenant_, {handle, {}})->digest, "");
}

// With the device's own memory full, operands go for a request's sake.
TEST(OperandStore, MakesRoomOnItsDevice) {
  testing::StoreFixture fixture(SmallStore(), 500);
  const Tenant tenant;
  ASSERT_TRUE(fixture.Put(tenant, StoredMatrix(std::string(300, 'x')), 0).ok());
  EXPECT_FALSE(fixture.device.memory().Reserve(300, 0).ok());
  EXPECT_TRUE(fixture.store.EvictFrom(&fixture.device));
  auto in_flight = *fixture.device.memory().Reserve(300, 0);
  EXPECT_EQ(fixture.Put(tenant, StoredMatrix(std::string(300, 'y'))).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fixture.store.statistics().reserved_bytes, 0u);
}

}  // namespace
}  // namespace gemmd
