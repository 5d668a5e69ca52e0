// Tuning on a real server: what was measured is chosen, and is chosen after a restart.
#include <csignal>
#include <fstream>
#include <string>

#include "gemmd/v1/admin.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

v1::ProblemShape Shape() {
  v1::ProblemShape shape;
  shape.set_m(24);
  shape.set_n(16);
  shape.set_k(32);
  return shape;
}

// The chosen candidate for Shape().
v1::Candidate Chosen(const testing::ServerProcess& server) {
  const auto admin = v1::Admin::NewStub(server.NewChannel());
  grpc::ClientContext context;
  v1::ListKernelsRequest request;
  *request.mutable_explain() = Shape();
  v1::ListKernelsResponse response;
  EXPECT_TRUE(admin->ListKernels(&context, request, &response).ok());
  for (const v1::Candidate& candidate : response.candidates()) {
    if (candidate.chosen()) return candidate;
  }
  return {};
}

// Tuning and explaining send no matrix: what bounds a unary message does not bound them.
TEST(TuneTest, WhatStreamsCarryCanBeExplainedAndTuned) {
  testing::ServerProcess server({"--device=cpu", "--cpu.threads=1", "--limits.message-bytes=4096"});
  const auto admin = v1::Admin::NewStub(server.NewChannel());
  v1::ProblemShape shape = Shape();
  shape.set_m(128);
  shape.set_n(128);
  v1::ListKernelsRequest explain;
  *explain.mutable_explain() = shape;
  v1::ListKernelsResponse kernels;
  grpc::ClientContext first;
  const grpc::Status explained = admin->ListKernels(&first, explain, &kernels);
  EXPECT_TRUE(explained.ok()) << explained.error_message();
  v1::TuneRequest request;
  *request.add_shapes() = shape;
  request.set_repeats(1);
  v1::TuneResponse response;
  grpc::ClientContext second;
  const grpc::Status tuned = admin->Tune(&second, request, &response);
  EXPECT_TRUE(tuned.ok()) << tuned.error_message();
  request.mutable_shapes(0)->set_k(2147483647);
  grpc::ClientContext third;
  const grpc::Status beyond = admin->Tune(&third, request, &response);
  EXPECT_EQ(beyond.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(beyond.error_message().find("one request may take"), std::string::npos)
      << beyond.error_message();
}

TEST(TuneTest, WhatWasMeasuredServesAndOutlivesARestart) {
  const std::string path = ::testing::TempDir() + "/plans.json";
  const std::string flag = "--tuning.plan-cache-file=" + path;
  double measured_us = 0;
  {
    testing::ServerProcess server({"--device=cpu", "--cpu.threads=1", flag});
    EXPECT_FALSE(Chosen(server).measured());
    const auto admin = v1::Admin::NewStub(server.NewChannel());
    v1::TuneRequest request;
    *request.add_shapes() = Shape();
    v1::TuneResponse response;
    grpc::ClientContext context;
    const grpc::Status status = admin->Tune(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.shapes_size(), 1);
    int chosen = 0;
    for (const v1::TunedCandidate& candidate : response.shapes(0).candidates()) {
      EXPECT_EQ(candidate.rejection().empty(), candidate.measured_us() > 0);
      if (!candidate.chosen()) continue;
      ++chosen;
      measured_us = candidate.measured_us();
    }
    EXPECT_EQ(chosen, 1);
    EXPECT_TRUE(Chosen(server).measured());
    EXPECT_EQ(Chosen(server).predicted_us(), measured_us);

    grpc::ClientContext statistics_context;
    v1::StatisticsResponse statistics;
    ASSERT_TRUE(admin->Statistics(&statistics_context, {}, &statistics).ok());
    EXPECT_EQ(statistics.reserved_bytes(), 0u);

    request.add_shapes()->set_n(3);
    grpc::ClientContext bad_context;
    const grpc::Status bad = admin->Tune(&bad_context, request, &response);
    EXPECT_EQ(bad.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(bad.error_message(), "shapes[1].m is 0; it must be 1 to 2147483647");
    server.Signal(SIGTERM);
    EXPECT_EQ(server.WaitForExit(), 0);
  }
  testing::ServerProcess restarted({"--device=cpu", "--cpu.threads=1", flag});
  EXPECT_TRUE(Chosen(restarted).measured());
  EXPECT_EQ(Chosen(restarted).predicted_us(), measured_us);
}

TEST(TuneTest, AFileThatCannotBeReadIsAWarningAndTheServerServes) {
  const std::string damaged = ::testing::TempDir() + "/damaged.json";
  std::ofstream(damaged) << "{\n\"format\": oops\n}";
  for (const std::string& path : {damaged, std::string(::testing::TempDir())}) {
    testing::ServerProcess server({"--device=cpu", "--tuning.plan-cache-file=" + path});
    EXPECT_FALSE(Chosen(server).measured());
    server.Signal(SIGTERM);
    EXPECT_EQ(server.WaitForExit(), 0);
    const std::string& log = server.log();
    EXPECT_NE(log.find("\"WARNING\",\"event\":\"plans_unreadable\""), std::string::npos) << log;
    EXPECT_NE(log.find(path), std::string::npos) << log;
    EXPECT_EQ(log.find("line 2") != std::string::npos, path == damaged) << log;
  }
}

}  // namespace
}  // namespace gemmd
