// Regions stay registered as long as their clients live, and not much longer.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/channel.h"
#include "client/shared_region.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/regions.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"
#include "tests/testing/shared_file.h"
#include "tests/testing/wire.h"

extern char** environ;

namespace gemmd {
namespace {

using client::SharedRegion;

constexpr std::uint64_t kBytes = 4096;
constexpr char kAddress[] = "GEMMD_TEST_SERVER";  // in the environment of a client to be killed
constexpr int kReport = 3;                        // the file that it writes to

class RegionLeasesTest : public ::testing::Test {
 protected:
  void Start(const std::string& lease_ms) {
    server_ = std::make_unique<testing::ServerProcess>(
        std::vector<std::string>{"--cpu.threads=1", "--shared-memory.name-prefix=gemmd-",
                                 "--shared-memory.default-lease-ms=" + lease_ms});
    ASSERT_NE(server_->address(), "");
    channel_ = server_->NewChannel();
  }

  std::uint64_t Regions() {
    grpc::ClientContext context;
    v1::StatisticsResponse response;
    EXPECT_TRUE(v1::Admin::NewStub(channel_)->Statistics(&context, {}, &response).ok());
    return response.shared_memory().regions();
  }

  // Returns the rest of the region's lease.
  absl::Duration LeaseOf(const SharedRegion& region) {
    grpc::ClientContext context;
    v1::RegionStatusRequest request;
    request.set_region(region.At(0).region());
    v1::RegionStatusResponse response;
    const grpc::Status status =
        v1::Regions::NewStub(channel_)->Status(&context, request, &response);
    if (!status.ok()) {
      ADD_FAILURE() << status.error_message();
      return absl::InfiniteDuration();
    }
    const google::protobuf::Duration& left = response.regions(0).lease_remaining();
    return absl::Seconds(left.seconds()) + absl::Nanoseconds(left.nanos());
  }

  std::unique_ptr<testing::ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Not a test: what AKilledClientLeavesNoRegion starts in a process of its own.
TEST(RegionClient, DISABLED_RegistersAndWaits) {
  const auto region = SharedRegion::Create(
      grpc::CreateChannel(std::getenv(kAddress), grpc::InsecureChannelCredentials()), kBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  const std::string& name = (*region)->name();
  ASSERT_EQ(write(kReport, name.data(), name.size()), static_cast<ssize_t>(name.size()));
  while (true) pause();
}

TEST_F(RegionLeasesTest, AKilledClientLeavesNoRegion) {
  Start("300");
  ASSERT_EQ(setenv(kAddress, server_->address().c_str(), 1), 0);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kReport);
  std::string self = "/proc/self/exe";
  std::string filter = "--gtest_filter=RegionClient.*";
  std::string disabled = "--gtest_also_run_disabled_tests";
  char* arguments[] = {self.data(), filter.data(), disabled.data(), nullptr};
  pid_t client = -1;
  ASSERT_EQ(posix_spawn(&client, self.c_str(), &actions, nullptr, arguments, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char name[256] = "/";
  const ssize_t bytes = read(ends[0], name + 1, sizeof name - 2);  // it has a region
  close(ends[0]);
  EXPECT_EQ(kill(client, SIGKILL), 0);
  ASSERT_EQ(waitpid(client, nullptr, 0), client);
  ASSERT_GT(bytes, 0);
  while (Regions() != 0) {
  }
  // The region had no name any more once the server had opened it, so nothing stays behind.
  EXPECT_EQ(shm_unlink(name), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(RegionLeasesTest, AnIdleClientsRegionStaysPastItsLease) {
  Start("4500");
  const auto region = SharedRegion::Create(channel_, kBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  // Each third of the lease it begins anew, with nobody using it.
  absl::Duration left = LeaseOf(**region);
  for (int renewals = 0; renewals < 4 && !HasFailure();) {
    const absl::Duration now = LeaseOf(**region);
    if (now > left) ++renewals;
    left = now;
  }
  EXPECT_EQ(Regions(), 1u);
}

TEST_F(RegionLeasesTest, ALeaseThatIsAskedForIsWhatItSays) {
  Start("3600000");
  client::SharedRegionOptions options;
  options.lease = absl::Seconds(2);
  const auto region = SharedRegion::Create(channel_, kBytes, options);
  ASSERT_TRUE(region.ok()) << region.status();
  while (Regions() != 0) {
  }
  // The client that uses it hears what happened.
  EXPECT_EQ((*region)->Renew().code(), absl::StatusCode::kNotFound);
  v1::MatmulRequest request = testing::ZeroRequest(8);
  request.clear_payload();
  *request.mutable_header()->mutable_a()->mutable_shared() = (*region)->At(0);
  *request.mutable_header()->mutable_b()->mutable_shared() = (*region)->At(256);
  *request.mutable_header()->mutable_output() = (*region)->At(512);
  grpc::ClientContext context;
  v1::MatmulResponse response;
  const grpc::Status status = v1::Gemm::NewStub(channel_)->Matmul(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(),
            "a.shared.region is of no region on this server: never registered, unregistered or "
            "out of lease");
}

TEST_F(RegionLeasesTest, AChildProcessLeavesTheRegionToItsParent) {
  Start("3600000");
  auto region = SharedRegion::Create(channel_, kBytes);
  ASSERT_TRUE(region.ok()) << region.status();
  const pid_t child = fork();
  if (child == 0) {
    region->reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Regions(), 1u);
  EXPECT_TRUE((*region)->Renew().ok());
  region->reset();
  EXPECT_EQ(Regions(), 0u);
}

TEST_F(RegionLeasesTest, EachTenantHasItsShareOfRegions) {
  server_ = std::make_unique<testing::ServerProcess>(std::vector<std::string>{
      "--cpu.threads=1", "--shared-memory.name-prefix=gemmd-", "--shared-memory.max-regions=3",
      "--shared-memory.max-bytes=40960", "--shared-memory.tenant-percent=60"});
  channel_ = server_->NewChannel();
  const auto channel_of = [this](const std::string& tenant) {
    client::ChannelOptions options;
    options.target = server_->address();
    options.tenant = tenant;
    return client::MakeChannel(options);
  };
  const auto a = channel_of("a");
  const auto b = channel_of("b");
  std::vector<std::unique_ptr<SharedRegion>> regions;
  for (int i = 0; i < 2; ++i) regions.push_back(*SharedRegion::Create(a, kBytes));
  const absl::Status refused = SharedRegion::Create(a, kBytes).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "the tenant's share of regions is 2, 2 are taken, and this takes 1 "
            "(shared_memory.tenant_percent)");
  EXPECT_EQ(SharedRegion::Create(b, 24577).status().message(),
            "the tenant's share of bytes of regions is 24576, 0 are taken, and this takes 24577 "
            "(shared_memory.tenant_percent)");
  EXPECT_TRUE(SharedRegion::Create(b, 24576).ok());
}

// A client that registers by hand renews by hand.
TEST_F(RegionLeasesTest, AnswersSayWhatLeaseThereIs) {
  Start("3600500");
  const testing::SharedFile file(kBytes, "gemmd-");
  const auto regions = v1::Regions::NewStub(channel_);
  v1::RegisterRegionRequest request;
  request.mutable_posix()->set_name(file.name());
  request.mutable_posix()->set_size_bytes(kBytes);
  v1::RegisterRegionResponse registered;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(regions->Register(&context, request, &registered).ok());
  }
  EXPECT_EQ(registered.lease().seconds(), 3600);
  EXPECT_EQ(registered.lease().nanos(), 500000000);
  v1::RenewRegionRequest renewal;
  renewal.set_region(registered.region());
  renewal.mutable_lease()->set_seconds(7200);
  v1::RenewRegionResponse renewed;
  grpc::ClientContext context;
  ASSERT_TRUE(regions->Renew(&context, renewal, &renewed).ok());
  EXPECT_EQ(renewed.lease().seconds(), 7200);
}

}  // namespace
}  // namespace gemmd
