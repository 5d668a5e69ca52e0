// A server with little memory and more requests than it holds at a time.
#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

// A product of this side has 3 MiB of operands and result. The server's memory holds six, a
// tenant's share five.
constexpr std::uint64_t kSize = 512;
constexpr char kMemory[] = "--cpu.memory-bytes=20000000";

void CallAs(const std::string& tenant, grpc::ClientContext* context) {
  context->AddMetadata("gemmd-tenant", tenant);
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
}

// Both come from one address, and so under one share; they take turns in it.
TEST(MemoryWaiting, NobodyIsRefusedBesideATenantThatAsksForAllOfTheMemory) {
  testing::ServerProcess server({kMemory, "--cpu.threads=1"});
  constexpr int kHogs = 24;
  const auto hog = v1::Gemm::NewStub(server.NewChannel());
  const v1::MatmulRequest request = testing::ZeroRequest(kSize);
  struct Call {
    grpc::ClientContext context;
    v1::MatmulResponse response;
  };
  std::list<Call> calls;
  std::mutex mutex;
  std::vector<std::string> errors;
  absl::BlockingCounter left(kHogs);
  for (int i = 0; i < kHogs; ++i) {
    Call& call = calls.emplace_back();
    CallAs("hog", &call.context);
    hog->async()->Matmul(&call.context, &request, &call.response, [&](const grpc::Status& status) {
      if (!status.ok()) {
        const std::lock_guard<std::mutex> lock(mutex);
        errors.push_back(status.error_message());
      }
      left.DecrementCount();
    });
  }
  const auto polite = v1::Gemm::NewStub(server.NewChannel());
  for (int i = 0; i < 5; ++i) {
    grpc::ClientContext context;
    CallAs("polite", &context);
    v1::MatmulResponse response;
    const grpc::Status status = polite->Matmul(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  left.Wait();
  EXPECT_TRUE(errors.empty()) << errors.size() << " of the hog's, such as " << errors.front();
}

// A request that waits is forgotten with its client: memory and turns are the others'.
TEST(MemoryWaiting, ClientsThatGoWhileTheyWaitLeaveNothing) {
  testing::ServerProcess server({kMemory, "--cpu.threads=1"});
  const v1::MatmulRequest request = testing::ZeroRequest(kSize);
  for (int round = 0; round < 3; ++round) {
    const auto stub = v1::Gemm::NewStub(server.NewChannel());
    struct Call {
      grpc::ClientContext context;
      v1::MatmulResponse response;
    };
    std::list<Call> calls;
    constexpr int kCalls = 16;
    absl::BlockingCounter left(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      Call& call = calls.emplace_back();
      CallAs("hasty", &call.context);
      stub->async()->Matmul(&call.context, &request, &call.response,
                            [&](const grpc::Status&) { left.DecrementCount(); });
    }
    for (Call& call : calls) call.context.TryCancel();
    left.Wait();
  }
  const auto stub = v1::Gemm::NewStub(server.NewChannel());
  grpc::ClientContext context;
  CallAs("next", &context);
  v1::MatmulResponse response;
  const grpc::Status status = stub->Matmul(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace gemmd
