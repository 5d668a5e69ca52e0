// gemm health, against a real server and one that says anything.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/subprocess.h"
#include "tests/testing/server_process.h"

namespace gemmd::cli {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

testing::ProcessResult Health(const std::string& address, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"client/cli/gemm", "health", "--patience=0"});
  return testing::RunProcess(arguments, {"GEMMD_SERVER=" + address});
}

// Answers each check with the same number.
class Answering final : private grpc::health::v1::Health::Service {
 public:
  explicit Answering(int status)
      : status_(static_cast<HealthCheckResponse::ServingStatus>(status)) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }

  const std::string& address() const { return address_; }

 private:
  grpc::Status Check(grpc::ServerContext*, const HealthCheckRequest*,
                     HealthCheckResponse* response) override {
    response->set_status(status_);
    return grpc::Status::OK;
  }

  const HealthCheckResponse::ServingStatus status_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(Health, OfAServerThatServesEndsWithZero) {
  const testing::ServerProcess server({"--cpu.threads=1"});
  const testing::ProcessResult whole = Health(server.address(), {});
  EXPECT_EQ(whole.exit_code, 0) << whole.error;
  EXPECT_EQ(whole.output, "SERVING\n");
  EXPECT_EQ(whole.error, "");
  const testing::ProcessResult one =
      Health(server.address(), {"--json", "--service=gemmd.v1.Gemm"});
  EXPECT_EQ(one.exit_code, 0) << one.error;
  EXPECT_EQ(nlohmann::json::parse(one.output),
            (nlohmann::json{{"service", "gemmd.v1.Gemm"}, {"status", "SERVING"}}));
}

TEST(Health, OfAServiceThatIsNotThereIsRefusedByName) {
  const testing::ServerProcess server({"--cpu.threads=1"});
  const testing::ProcessResult result = Health(server.address(), {"--service=gemmd.v2.Gemm"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(result.error, "gemm: " + server.address() +
                              ": NOT_FOUND: service is \"gemmd.v2.Gemm\": there is none of that "
                              "name\n");
}

// Whatever is not SERVING fails a probe, what no protocol has too.
TEST(Health, OfAServerThatDoesNotServeEndsWithFive) {
  const std::vector<std::pair<int, std::string>> answers = {
      {HealthCheckResponse::NOT_SERVING, "NOT_SERVING"},
      {HealthCheckResponse::UNKNOWN, "UNKNOWN"},
      {HealthCheckResponse::SERVICE_UNKNOWN, "SERVICE_UNKNOWN"},
      {77, "77"}};
  for (const auto& [number, name] : answers) {
    const Answering server(number);
    const testing::ProcessResult result = Health(server.address(), {});
    EXPECT_EQ(result.exit_code, 5) << name;
    EXPECT_EQ(result.output, name + "\n");
    EXPECT_EQ(result.error,
              "gemm: " + server.address() + ": service \"\" is " + name + ", not SERVING\n");
    const testing::ProcessResult json = Health(server.address(), {"--json"});
    EXPECT_EQ(json.exit_code, 5) << name;
    EXPECT_EQ(nlohmann::json::parse(json.output),
              (nlohmann::json{{"service", ""}, {"status", name}}));
  }
}

TEST(Health, OfAServerThatIsNotThereEndsWithFive) {
  std::string address;
  {
    const Answering server(HealthCheckResponse::SERVING);
    address = server.address();
  }
  const testing::ProcessResult result = Health(address, {"--timeout=5s"});
  EXPECT_EQ(result.exit_code, 5) << result.error;
  EXPECT_EQ(result.output, "");
}

}  // namespace
}  // namespace gemmd::cli
