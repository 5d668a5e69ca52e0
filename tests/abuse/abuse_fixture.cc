#include "tests/abuse/abuse_fixture.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "absl/base/config.h"
#include "tests/abuse/polite_client.h"

namespace gemmd::testing {
namespace {

// A sanitizer keeps what was freed for a while.
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
constexpr bool kCountsMemory = false;
#else
constexpr bool kCountsMemory = true;
#endif

// The server keeps an eighth of its memory for planes at hand, which counts as allocated.
std::vector<std::string> WithUsual(std::vector<std::string> flags) {
  flags.emplace_back("--cpu.threads=1");
  flags.emplace_back("--cpu.memory-bytes=67108864");
  return flags;
}

}  // namespace

AbuseFixture::AbuseFixture(std::vector<std::string> flags, std::uint64_t most_growth_bytes)
    : server_(WithUsual(std::move(flags))), most_growth_bytes_(most_growth_bytes) {
  MultiplyAsANewClient();
  peak_bytes_ = PeakBytes();
  allocated_bytes_ = AllocatedBytes();
  polite_ = std::thread([this] {
    PoliteClient client(server_.address());
    while (!is_over_ && client.errors.empty()) client.Multiply();
    EXPECT_EQ(client.errors, std::vector<std::string>());
    EXPECT_EQ(client.told_to_wait, 0);
  });
}

void AbuseFixture::TearDown() {
  is_over_ = true;
  polite_.join();
  channel_.reset();
  MultiplyAsANewClient();
  if (kCountsMemory) {
    EXPECT_LE(PeakBytes(), peak_bytes_ + most_growth_bytes_);
  }
  AwaitRelease();
}

// A connection's end is told to the server, which then frees what it held: the count is asked for
// until it is low enough, or for much longer than that takes.
void AbuseFixture::AwaitRelease() const {
  constexpr std::uint64_t kLeastSlack = 16 << 20;
  const std::uint64_t most = allocated_bytes_ + std::max(allocated_bytes_ / 20, kLeastSlack);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::uint64_t allocated = AllocatedBytes();
  while (allocated > most && std::chrono::steady_clock::now() < end) allocated = AllocatedBytes();
  EXPECT_LE(allocated, most) << "it began with " << allocated_bytes_;
}

std::uint64_t AbuseFixture::AllocatedBytes() const {
  const auto admin = v1::Admin::NewStub(watcher_);
  grpc::ClientContext context;
  v1::StatisticsResponse response;
  const grpc::Status status = admin->Statistics(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.allocated_bytes();
}

std::uint64_t AbuseFixture::ReservedBytes() {
  const auto admin = v1::Admin::NewStub(channel_);
  grpc::ClientContext context;
  v1::StatisticsResponse statistics;
  const grpc::Status status = admin->Statistics(&context, {}, &statistics);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return statistics.reserved_bytes();
}

void AbuseFixture::MultiplyAsANewClient() const {
  PoliteClient client(server_.address());
  client.Multiply();
  EXPECT_EQ(client.errors, std::vector<std::string>());
  EXPECT_EQ(client.answered, 1);
}

std::uint64_t AbuseFixture::PeakBytes() const {
  std::ifstream status("/proc/" + std::to_string(server_.pid()) + "/status");
  std::string word;
  while (status >> word && word != "VmHWM:") {
  }
  std::uint64_t kibibytes = 0;
  EXPECT_TRUE(status >> kibibytes) << "the server is gone";
  return kibibytes << 10;
}

}  // namespace gemmd::testing
