// Start, serve, drain, end: by signal and exit code, as an operator sees them.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/testing/raw_call.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using testing::ServerProcess;

// A product that computes for about a second on one thread, on processors with VNNI too.
v1::MatmulRequest LongRequest() {
  const Problem problem = MakeProblem(1500, 1500, 8000, DataType::kInt8, DataType::kInt32);
  const testing::Operands operands(problem, testing::Distribution::kNormal, 1);
  v1::MatmulRequest request = testing::MakeRequest(problem, operands);
  request.mutable_header()->set_kernel("cpu/panel_int8");
  return request;
}

// A call in flight.
struct PendingCall {
  explicit PendingCall(v1::Gemm::Stub* stub, const v1::MatmulRequest& request) {
    reader = stub->AsyncMatmul(&context, request, &queue);
    reader->Finish(&response, &status, nullptr);
  }
  ~PendingCall() {
    context.TryCancel();
    queue.Shutdown();
    void* tag;
    bool ok;
    while (queue.Next(&tag, &ok)) {
    }
  }

  const grpc::Status& Wait() {
    void* tag;
    bool ok;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status;
  }

  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  v1::MatmulResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::MatmulResponse>> reader;
};

class LifecycleTest : public ::testing::Test {
 protected:
  // The library is held for good: without users it may wait ten seconds for its poller.
  static void SetUpTestSuite() { grpc_init(); }

  void Start(std::vector<std::string> flags) {
    flags.push_back("--cpu.threads=1");
    // Long products must be let in, however slow the machine was found to be at the start.
    flags.push_back("--scheduling.max-queued-ms=3600000");
    server_ = std::make_unique<ServerProcess>(std::move(flags));
    ASSERT_NE(server_->address(), "");
    channel_ = server_->NewChannel();
    gemm_ = v1::Gemm::NewStub(channel_);
    admin_ = v1::Admin::NewStub(channel_);
  }

  v1::StatisticsResponse Statistics() {
    grpc::ClientContext context;
    v1::StatisticsResponse response;
    EXPECT_TRUE(admin_->Statistics(&context, {}, &response).ok());
    return response;
  }

  void WaitUntilAdmitted(std::uint64_t count) {
    while (Statistics().admitted_requests() < count) {
    }
  }

  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Gemm::Stub> gemm_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

TEST_F(LifecycleTest, SigtermFinishesWhatWasAdmittedAndExitsZero) {
  Start({});
  PendingCall running(gemm_.get(), LongRequest());
  PendingCall queued(gemm_.get(), LongRequest());
  WaitUntilAdmitted(2);
  server_->Signal(SIGTERM);
  // From the signal on a new request is refused, by the draining server or, if it has
  // already ended, by nobody being there: UNAVAILABLE both times.
  grpc::Status refused;
  do {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    refused = gemm_->Matmul(&context, testing::ZeroRequest(2), &response);
  } while (refused.ok());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE) << refused.error_message();
  const testing::RawAnswer health =
      testing::RawUnaryCall(channel_, "/grpc.health.v1.Health/Check", "");
  if (health.status.ok()) {
    EXPECT_EQ(health.bytes, std::string("\x08\x02", 2));  // NOT_SERVING
  } else {
    EXPECT_EQ(health.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_TRUE(running.Wait().ok()) << running.status.error_message();
  EXPECT_TRUE(queued.Wait().ok()) << queued.status.error_message();
  EXPECT_EQ(server_->WaitForExit(), 0);
  EXPECT_NE(server_->log().find("\"event\":\"drained\""), std::string::npos);
}

// gRPC's shutdown alone answers CANCELLED to most of these.
TEST_F(LifecycleTest, ClientsThatCallOnAndOnSeeUnavailableAlone) {
  constexpr int kClients = 8;
  Start({});
  std::atomic<int> begun{0};
  std::vector<grpc::StatusCode> ends(kClients, grpc::StatusCode::OK);
  std::vector<std::thread> clients;
  for (grpc::StatusCode& end : ends) {
    clients.emplace_back([this, &end, &begun] {
      const std::shared_ptr<grpc::Channel> own = server_->NewChannel();
      while (end == grpc::StatusCode::OK) {
        end = testing::RawUnaryCall(own, "/grpc.health.v1.Health/Check", "").status.error_code();
        ++begun;
      }
    });
  }
  while (begun < 4 * kClients) std::this_thread::yield();
  server_->Signal(SIGTERM);
  for (std::thread& each : clients) each.join();
  for (const grpc::StatusCode end : ends) EXPECT_EQ(end, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_->WaitForExit(), 0);
}

TEST_F(LifecycleTest, ASecondSignalEndsItAtOnce) {
  Start({});
  std::vector<std::unique_ptr<PendingCall>> calls;
  const v1::MatmulRequest request = LongRequest();
  calls.reserve(4);
  for (int i = 0; i < 4; ++i) calls.push_back(std::make_unique<PendingCall>(gemm_.get(), request));
  WaitUntilAdmitted(4);
  server_->Signal(SIGINT);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->WaitForExit(), 3);
  EXPECT_EQ(calls.back()->Wait().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(LifecycleTest, TheDrainTimeoutEndsIt) {
  Start({"--lifecycle.drain-timeout-ms=0"});
  std::vector<std::unique_ptr<PendingCall>> calls;
  const v1::MatmulRequest request = LongRequest();
  calls.reserve(3);
  for (int i = 0; i < 3; ++i) calls.push_back(std::make_unique<PendingCall>(gemm_.get(), request));
  WaitUntilAdmitted(3);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->WaitForExit(), 3);
  EXPECT_NE(server_->log().find("drain_cut_short"), std::string::npos);
}

TEST_F(LifecycleTest, CancelledCallsLeaveTheQueueAndTheirBytes) {
  Start({});
  const v1::MatmulRequest request = LongRequest();
  PendingCall running(gemm_.get(), request);
  WaitUntilAdmitted(1);
  PendingCall queued(gemm_.get(), request);
  WaitUntilAdmitted(2);
  queued.context.TryCancel();
  EXPECT_EQ(queued.Wait().error_code(), grpc::StatusCode::CANCELLED);
  running.context.TryCancel();
  while (Statistics().in_flight_requests() > 0) {
  }
  const v1::StatisticsResponse statistics = Statistics();
  EXPECT_EQ(statistics.finished_requests().at("CANCELLED"), 2u);
  EXPECT_EQ(statistics.reserved_bytes(), 0u);
  EXPECT_EQ(statistics.queued_requests(), 0u);
}

// Their messages never come, so that nothing is wrong with them.
TEST_F(LifecycleTest, CallsCancelledBeforeTheyArrivedAreCountedAsThat) {
  Start({});
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto start = [&](grpc::ClientContext* context) {
    auto call = stub.PrepareCall(context, "/gemmd.v1.Gemm/Matmul", &queue);
    call->StartCall(nullptr);
    EXPECT_TRUE(queue.Next(&tag, &ok) && ok);  // the server has its headers, or will
    return call;
  };
  const auto finish = [&](grpc::GenericClientAsyncReaderWriter* call) {
    grpc::Status status;
    call->Finish(&status, nullptr);
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status.error_code();
  };
  grpc::ClientContext cancelled_context;
  const auto cancelled = start(&cancelled_context);
  cancelled_context.TryCancel();
  EXPECT_EQ(finish(cancelled.get()), grpc::StatusCode::CANCELLED);
  while (Statistics().received_requests() < 1 || Statistics().in_flight_requests() > 0) {
  }
  EXPECT_EQ(Statistics().finished_requests().at("CANCELLED"), 1u);

  // A client that says it sends nothing is wrong, and waits to hear so.
  grpc::ClientContext empty_context;
  const auto empty = start(&empty_context);
  empty->WritesDone(nullptr);
  EXPECT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(finish(empty.get()), grpc::StatusCode::INVALID_ARGUMENT);
  while (Statistics().received_requests() < 2 || Statistics().in_flight_requests() > 0) {
  }
  EXPECT_EQ(Statistics().finished_requests().at("INVALID_ARGUMENT"), 1u);
  EXPECT_EQ(Statistics().finished_requests().at("CANCELLED"), 1u);
  queue.Shutdown();
}

TEST_F(LifecycleTest, ALogThatNobodyReadsEndsNothing) {
  Start({});
  server_->CloseLog();
  server_->Signal(SIGTERM);  // which is logged
  EXPECT_EQ(server_->WaitForExit(), 0);
}

class MemoryTest : public LifecycleTest {
 protected:
  // This limits memory as a container does, if there were no kernel that kills first.
  void EndMemory(std::uint64_t more_bytes) {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
    GTEST_SKIP() << "the sanitizer's allocator ends the process itself";
#endif
    Start({"--limits.message-bytes=1000000000"});
    std::uint64_t pages = 0;
    std::ifstream("/proc/" + std::to_string(server_->pid()) + "/statm") >> pages;
    const std::uint64_t bytes = pages * getpagesize() + more_bytes;
    const rlimit limit{bytes, bytes};
    ASSERT_EQ(prlimit(server_->pid(), RLIMIT_AS, &limit, nullptr), 0);
    const grpc::Status status =
        testing::RawUnaryCall(channel_, "/gemmd.v1.Gemm/Matmul", testing::ZeroMessage(100)).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    server_->Signal(SIGTERM);  // should it still be there
    EXPECT_EQ(server_->WaitForExit(), 5);
    EXPECT_NE(server_->log().find("\"event\":\"out_of_memory\""), std::string::npos)
        << server_->log();
  }
};

// If nothing is left at all, libraries crash in ways of their own.
TEST_F(MemoryTest, WhereMemoryEndsTheServerSaysSoAndEnds) { EndMemory(32 << 20); }
TEST_F(MemoryTest, WhereNoMemoryIsLeftAtAllToo) { EndMemory(0); }

// gRPC has something to say about each of these calls.
TEST_F(LifecycleTest, WhatClientsMakeGrpcSayIsBounded) {
  Start({});
  constexpr int kCalls = 500;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    testing::RawUnaryCall(channel_, "/gemmd.v1.Gemm/Matmul", testing::ZeroMessage(0),
                          GRPC_COMPRESS_GZIP);
  }
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->WaitForExit(), 0);
  int lines = 0;
  std::istringstream log(server_->log());
  for (std::string line; std::getline(log, line);) {
    EXPECT_EQ(line.front(), '{') << line;
    if (line.find("\"event\":\"grpc\"") != std::string::npos) ++lines;
  }
  EXPECT_GE(lines, 1);
  EXPECT_LE(lines, 10 * (seconds.count() + 2));
}

TEST(Start, AConfigurationThatCannotBeReadExitsWithTwo) {
  ServerProcess server({"--config=/tmp"});
  EXPECT_EQ(server.address(), "");
  server.Signal(SIGTERM);  // should it serve
  EXPECT_EQ(server.WaitForExit(), 2);
  EXPECT_EQ(server.log(),
            "gemmd: --config is \"/tmp\", which cannot be read: it is no regular file\n");
}

TEST(Start, BadOptionsExitWithTwo) {
  ServerProcess server({"--cpu.threads=-1"});
  EXPECT_EQ(server.address(), "");
  EXPECT_EQ(server.WaitForExit(), 2);
  EXPECT_EQ(server.log(), "gemmd: --cpu.threads is -1; it must be 0 to 1024\n");
}

TEST(Start, AnAddressInUseExitsWithOne) {
  ServerProcess first;
  ServerProcess second({"--listen=" + first.address()});
  EXPECT_EQ(second.WaitForExit(), 1);
  EXPECT_NE(second.log().find("cannot listen on " + first.address()), std::string::npos)
      << second.log();
}

TEST(Start, AnUnreadableCertificateExitsWithOne) {
  ServerProcess server({"--tls.certificate-file=/none.pem", "--tls.key-file=/none.key"});
  EXPECT_EQ(server.WaitForExit(), 1);
  EXPECT_NE(server.log().find("--tls.certificate-file is \\\"/none.pem\\\""), std::string::npos)
      << server.log();
}

}  // namespace
}  // namespace gemmd
