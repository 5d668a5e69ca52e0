// Whatever order uploads, chunks, broken streams, expiry, releases and uses come in: nothing
// leaks, nobody reads another's bytes, and the budget is empty at the end.
#include <array>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using testing::StoredMatrix;
using testing::StoreFixture;

const std::vector<StoredMatrix>& Matrices() {
  static const auto& matrices = *[] {
    auto* result = new std::vector<StoredMatrix>;
    std::mt19937 random(1);
    for (int i = 0; i < 6; ++i) {
      std::string bytes(40 + random() % 300, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      result->emplace_back(std::move(bytes));
    }
    return result;
  }();
  return matrices;
}

const std::array<Tenant, 2>& Tenants() {
  static const auto& tenants = *new std::array<Tenant, 2>{*Tenant::Named("a"), *Tenant::Named("b")};
  return tenants;
}

// One client that does things at random.
class Client {
 public:
  Client(StoreFixture* fixture, std::uint32_t seed) : fixture_(fixture), random_(seed) {}

  void Step() {
    const std::size_t number = random_() % Matrices().size();
    const StoredMatrix& matrix = Matrices()[number];
    const Tenant& tenant = Tenants()[random_() % Tenants().size()];
    OperandStore& store = fixture_->store;
    switch (random_() % 12) {
      case 0:
      case 1: {
        const std::optional<TimeNs> lease =
            random_() % 2 == 0 ? std::nullopt : std::make_optional<TimeNs>(random_() % 3 * kSecond);
        auto stream = store.BeginUpload(tenant, matrix.digest, matrix.form, lease);
        if (stream.ok()) streams_.push_back({number, *std::move(stream)});
        break;
      }
      case 2:
      case 3:
      case 4:
      case 5:
        SendChunk();
        break;
      case 6:  // the stream ends, or breaks
        if (!streams_.empty()) {
          const std::size_t index = random_() % streams_.size();
          if (random_() % 2 == 0) streams_[index].upload->End().IgnoreError();
          streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(index));
        }
        break;
      case 7:
        fixture_->clock.Advance(static_cast<TimeNs>(random_() % 8) * kSecond);
        break;
      case 8:
        store.Release(tenant, matrix.key()).IgnoreError();
        break;
      case 9: {
        auto operand = store.Use(tenant, matrix.key(), "a");
        if (!operand.ok()) break;
        const auto piece = (*operand)->Whole(PlaneName::kData);
        ASSERT_TRUE(piece.ok());
        ASSERT_EQ(std::string(piece->data, piece->size_bytes), matrix.bytes);
        if (random_() % 2 == 0) used_.push_back(*std::move(operand));
        if (random_() % 3 == 0) lent_.push_back(*piece);
        break;
      }
      case 10:
        if (random_() % 2 == 0) used_.clear();
        if (random_() % 2 == 0) lent_.clear();
        store.List(tenant, 0, 3);
        store.FindMissing(tenant, matrix.key().digest);
        break;
      case 11: {
        auto result = store.BeginResult(tenant, matrix.form.data, 0, &fixture_->device);
        if (result.ok() && random_() % 2 == 0) {
          std::memcpy((*result)->memory().front().data, matrix.bytes.data(), matrix.bytes.size());
          if (random_() % 3 == 0) lent_.push_back((*result)->memory().front());
          const std::string handle = store.Keep(*std::move(result));
          store.Renew(tenant, {handle, {}}, kSecond).status().IgnoreError();
        }
        break;
      }
      default:
        break;
    }
  }

 private:
  struct Stream {
    std::size_t matrix = 0;
    std::unique_ptr<OperandStore::UploadStream> upload;
  };

  void SendChunk() {
    if (streams_.empty()) return;
    Stream& stream = streams_[random_() % streams_.size()];
    const StoredMatrix& matrix = Matrices()[stream.matrix];
    const bool is_all = random_() % 3 == 0;
    const std::uint64_t begin = is_all ? 0 : random_() % (matrix.bytes.size() + 1);
    const std::uint64_t end =
        is_all ? matrix.bytes.size() : begin + random_() % (matrix.bytes.size() - begin + 1);
    if (random_() % 40 == 0) {  // lies: the digest notices, at the end
      const std::string wrong(end - begin, 'w');
      const absl::string_view piece = wrong;
      stream.upload->Receive({PlaneName::kData, begin, {&piece, 1}}).status().IgnoreError();
    } else {
      fixture_->Send(stream.upload.get(), matrix, begin, end).status().IgnoreError();
    }
  }

  StoreFixture* const fixture_;
  std::mt19937 random_;
  std::vector<Stream> streams_;
  std::vector<std::shared_ptr<StoredOperand>> used_;
  std::vector<HostPiece> lent_;  // as downloads and checks of results have them
};

// The accounts of the store say what its operands take of memory, whoever has them.
void ExpectAllCounted(StoreFixture* fixture) {
  ASSERT_EQ(fixture->store.statistics().reserved_bytes,
            fixture->device.memory().usage().resident_bytes);
}

void ExpectEmpty(StoreFixture* fixture) {
  fixture->clock.Advance(1000 * kSecond);
  while (fixture->store.EvictFrom(&fixture->device)) {
  }
  const StoreStatistics statistics = fixture->store.statistics();
  EXPECT_EQ(statistics.reserved_bytes, 0u);
  EXPECT_EQ(statistics.residents, 0u);
  EXPECT_EQ(statistics.partial_uploads, 0u);
  EXPECT_EQ(fixture->device.memory().usage().free_bytes(), 700u);
}

TEST(Interleavings, OfOneThreadLeaveNothingBehind) {
  std::uint64_t residents = 0;
  std::uint64_t evictions = 0;
  std::uint64_t hits = 0;
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    StoreFixture fixture(testing::SmallStore(), 700);
    {
      Client client(&fixture, seed);
      for (int step = 0; step < 60; ++step) {
        client.Step();
        ExpectAllCounted(&fixture);
      }
      const StoreStatistics statistics = fixture.store.statistics();
      ASSERT_LE(statistics.reserved_bytes, statistics.limit_bytes);
      residents += statistics.residents;
      evictions += statistics.evictions;
      hits += statistics.hits;
    }
    ExpectEmpty(&fixture);
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  // They reach what they are there for.
  EXPECT_GT(residents, 1000u);
  EXPECT_GT(evictions, 1000u);
  EXPECT_GT(hits, 1000u);
}

TEST(Interleavings, OfSeveralThreadsLeaveNothingBehind) {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    StoreFixture fixture(testing::SmallStore(), 700);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 3; ++i) {
      threads.emplace_back([&fixture, seed, i] {
        Client client(&fixture, seed * 3 + i);
        for (int step = 0; step < 60; ++step) client.Step();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ExpectEmpty(&fixture);
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

// Several streams bring one large operand together: each piece is hashed once, by somebody.
TEST(Interleavings, StreamsShareAnUpload) {
  // Room for all of them: those that begin at the same moment each hold theirs for that moment.
  StoreOptions options = testing::SmallStore();
  options.all.bytes = options.tenant.bytes = 1 << 25;
  StoreFixture fixture(options, 1 << 25);
  std::mt19937 random(3);
  std::string bytes((5 << 20) + 12345, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const StoredMatrix matrix(std::move(bytes));
  std::vector<std::thread> threads;
  std::array<absl::Status, 4> ends;
  for (std::uint32_t i = 0; i < ends.size(); ++i) {
    threads.emplace_back([&, i] {
      auto stream = fixture.store.BeginUpload(Tenant(), matrix.digest, matrix.form, std::nullopt);
      ASSERT_TRUE(stream.ok()) << stream.status();
      constexpr std::uint64_t kChunk = 300000;
      const std::uint64_t chunks = (matrix.bytes.size() + kChunk - 1) / kChunk;
      for (std::uint64_t n = 0; n < chunks; ++n) {
        const std::uint64_t begin = (n + i * chunks / ends.size()) % chunks * kChunk;
        const std::uint64_t end = std::min<std::uint64_t>(begin + kChunk, matrix.bytes.size());
        const auto sent = fixture.Send(stream->get(), matrix, begin, end);
        ASSERT_TRUE(sent.ok()) << sent.status();
        if (*sent) break;
      }
      ends[i] = (*stream)->End();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& end : ends) EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(fixture.BytesOf(Tenant(), matrix.key()), matrix.bytes);
  EXPECT_EQ(fixture.store.statistics().uploaded_bytes, matrix.bytes.size());
}

}  // namespace
}  // namespace gemmd
