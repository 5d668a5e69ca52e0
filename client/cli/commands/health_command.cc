// gemm health: whether the server takes calls, for probes.
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "grpc/health/v1/health.pb.h"

namespace gemmd::cli {
namespace {

using grpc::health::v1::HealthCheckResponse;

constexpr char kExamples[] = R"(  gemm health
  gemm health --timeout 3s --patience 0
  gemm health --service gemmd.v1.Gemm --json
)";

// A number that has no name here is told as it is.
std::string NameOf(HealthCheckResponse::ServingStatus status) {
  if (!HealthCheckResponse::ServingStatus_IsValid(status)) return absl::StrCat(status);
  return HealthCheckResponse::ServingStatus_Name(status);
}

Outcome RunHealth(const GlobalOptions& global, const std::string& service) {
  if (Outcome failure = WantOneServer(global, "health")) return failure;
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  const auto health = connection->Health(service, CallWithin(global.timeout));
  if (!health.ok()) return ServerFailure(global.server, health.status());
  const std::string status = NameOf(health->status());
  if (global.json) {
    std::cout << nlohmann::ordered_json{{"service", service}, {"status", status}}.dump() << "\n";
  } else {
    std::cout << status << "\n";
  }
  if (health->status() == HealthCheckResponse::SERVING) return std::nullopt;
  // The output has the answer: the failure gives the exit code, and its line for people.
  return Failure{ExitCode::kUnavailable, global.server,
                 absl::StrCat("service ", Quoted(service), " is ", status, ", not SERVING"),
                 std::nullopt, /*in_output=*/true};
}

}  // namespace

void AddHealthCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand(
      "health", "Ask whether the server takes calls; ends with 0 if it does, for probes");
  const auto service = std::make_shared<std::string>();
  app.add_option("--service", *service, "The service to ask of; without it, the whole server")
      ->type_name("NAME");
  app.footer(Footer(kExamples));
  app.callback([&commands, service] {
    commands.selected = [&commands, service] { return RunHealth(commands.global, *service); };
  });
}

}  // namespace gemmd::cli
