// A server with a polite client beside whoever abuses it, and what must hold in the end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gemmd/v1/admin.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd::testing {

// From here to the test's end the polite client multiplies. In the end each of its requests was
// answered, a new client's is, the server never had much more memory than it began with, and what
// it has allocated comes back to within the larger of 5 % and 16 MiB.
class AbuseFixture : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kMostGrowthBytes = 64 << 20;

  explicit AbuseFixture(std::vector<std::string> flags = {},
                        std::uint64_t most_growth_bytes = kMostGrowthBytes);
  void TearDown() override;

  // Bytes that requests hold by the server's account.
  std::uint64_t ReservedBytes();
  // Returns once no request holds memory; the polite client's come and go.
  void AwaitFreeMemory() {
    while (ReservedBytes() != 0) {
    }
  }

  ServerProcess server_;
  // The abuser's channel, which it lets go at the test's end.
  std::shared_ptr<grpc::Channel> channel_ = server_.NewChannel();

 private:
  void MultiplyAsANewClient() const;
  // Counted by the allocator; 0 under sanitizers.
  std::uint64_t AllocatedBytes() const;
  void AwaitRelease() const;
  // The most physical memory that the server ever had.
  std::uint64_t PeakBytes() const;

  // One connection for all questions: the server takes so many in a second, and no more.
  const std::shared_ptr<grpc::Channel> watcher_ = server_.NewChannel();
  const std::uint64_t most_growth_bytes_;  // of the peak
  // At the beginning:
  std::uint64_t peak_bytes_ = 0;
  std::uint64_t allocated_bytes_ = 0;
  std::atomic<bool> is_over_{false};
  std::thread polite_;
};

}  // namespace gemmd::testing
