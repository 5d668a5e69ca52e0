// Quotas while many threads ask for more than they give, and while they change.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/server_process.h"
#include "tests/testing/token_entry.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

constexpr int kMostRequests = 3;
constexpr int kMostConnections = 2;

std::string PolicyOf(int requests) {
  return absl::StrCat(testing::TokenEntry("alices", "alice", "role: USER"),
                      testing::TokenEntry("bobs", "bob", "role: USER"),
                      testing::TokenEntry("watchers", "watch", "role: OBSERVER"),
                      "quota { tenant: \"alice\" requests: ", requests,
                      " connections: ", kMostConnections, " }");
}

class QuotaLoadTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) const {
    folder_.File("next", text);
    std::rename(folder_.Path("next").c_str(), policy_.c_str());
  }

  // Returns the status of a product; `*says_when`: it says when to come back.
  static grpc::Status Multiply(const std::shared_ptr<grpc::Channel>& channel,
                               const std::string& token, bool* says_when) {
    static const v1::MatmulRequest& request = *new v1::MatmulRequest(testing::ZeroRequest(64));
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    v1::MatmulResponse response;
    const grpc::Status status = v1::Gemm::NewStub(channel)->Matmul(&context, request, &response);
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto found = trailers.find("grpc-retry-pushback-ms");
    int ms = -1;
    *says_when =
        found != trailers.end() &&
        absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &ms) &&
        ms >= 0;
    return status;
  }

  v1::TenantQuota QuotaOfAlice() const {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer watchers");
    v1::StatisticsRequest request;
    request.set_tenant("alice");
    v1::StatisticsResponse response;
    const grpc::Status status =
        v1::Admin::NewStub(server_.NewChannel())->Statistics(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.quota();
  }

  const testing::TemporaryDirectory folder_;
  const std::string policy_ = folder_.File("policy", PolicyOf(kMostRequests));
  testing::ServerProcess server_{{"--auth.policy-file=" + policy_, "--cpu.threads=1"}};
};

TEST_F(QuotaLoadTest, AreKeptAndRefusalsSayWhenToComeBack) {
  constexpr int kEach = 150;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < kMostConnections + 1; ++i) channels.push_back(server_.NewChannel());
  bool unused = false;
  for (int i = 0; i < kMostConnections; ++i) {
    ASSERT_TRUE(Multiply(channels[i], "alices", &unused).ok());
  }
  std::atomic<int> answered{0};
  std::atomic<int> refused{0};
  std::atomic<int> running{0};
  std::vector<std::thread> threads;
  const auto start = [&](int channel, const std::string& token, bool may_be_refused) {
    ++running;
    threads.emplace_back([&, channel, token, may_be_refused] {
      for (int i = 0; i < kEach; ++i) {
        bool says_when = false;
        const grpc::Status status = Multiply(channels[channel], token, &says_when);
        if (status.ok()) {
          ++answered;
          continue;
        }
        EXPECT_TRUE(may_be_refused) << status.error_message();
        EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
            << status.error_message();
        EXPECT_TRUE(absl::StrContains(status.error_message(), "the tenant's quota of "))
            << status.error_message();
        EXPECT_TRUE(says_when) << status.error_message();
        ++refused;
      }
      --running;
    });
  };
  // Twice as many as may be at once; one over a connection that is one too many.
  for (int i = 0; i < 2 * kMostRequests; ++i) start(i % kMostConnections, "alices", true);
  start(kMostConnections, "alices", true);
  for (int i = 0; i < 2; ++i) start(kMostConnections, "bobs", false);
  // At every look no more is taken than the limit allows, and the limit may change.
  std::uint64_t most = 0;
  for (int looks = 0; running > 0; ++looks) {
    if (looks % 8 == 0) {
      Write(PolicyOf(looks % 16 == 0 ? 1 : kMostRequests));
      server_.Signal(SIGHUP);
    }
    const v1::TenantQuota quota = QuotaOfAlice();
    ASSERT_EQ(quota.uses_size(), 5);
    EXPECT_LE(quota.uses(0).used(), static_cast<std::uint64_t>(kMostRequests));
    EXPECT_LE(quota.uses(4).used(), static_cast<std::uint64_t>(kMostConnections));
    most = std::max(most, quota.uses(0).used());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(most, 0U);
  EXPECT_GE(refused, kEach) << "those over the third connection, at least";
  EXPECT_GT(answered, 2 * kEach) << "bob's, and some of alice's";
  EXPECT_EQ(QuotaOfAlice().uses(0).used(), 0U);
}

// The client library comes back by itself.
TEST_F(QuotaLoadTest, APatientClientIsAnsweredInTheEnd) {
  client::ClientOptions options;
  options.channel.target = server_.address();
  options.channel.token = "alices";
  options.retry.max_attempts = 100000;
  client::Client client(options);
  const client::MatrixFormat format{DataType::kF32, 64, 64, Order::kRowMajor, 0};
  const client::Matrix zeros = *client::Matrix::Create(format, std::string(64 * 64 * 4, '\0'));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4 * kMostRequests; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        const auto product = client.Matmul({zeros, zeros});
        EXPECT_TRUE(product.ok()) << product.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gemmd
