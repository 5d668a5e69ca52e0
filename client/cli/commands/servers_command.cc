// gemm servers: the state of each server, and which of them hold a matrix.
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/table.h"
#include "client/operands.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm --servers gpu-1,gpu-2 servers
  gemm --server dns:///gemmd servers --json
)";

struct Asked {
  std::string address;
  absl::Status status;  // of the calls below
  v1::ServerInfoResponse info;
  std::vector<v1::ResidentOperand> residents;

  std::string state() const {
    if (!status.ok()) return absl::StatusCodeToString(status.code());
    return info.draining() ? "draining" : "serving";
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const v1::ResidentOperand& each : residents) sum += each.size_bytes();
    return sum;
  }
};

// A matrix, by its digest, or by its handle where it is a result and has none.
struct Held {
  v1::ResidentOperand resident;  // on one of the servers
  std::vector<std::string> servers;
};

std::vector<Held> HeldBy(const std::vector<Asked>& servers) {
  std::vector<Held> held;
  std::map<std::string, std::size_t> found;
  for (const Asked& server : servers) {
    for (const v1::ResidentOperand& each : server.residents) {
      const std::string& key = each.digest().empty() ? each.handle() : each.digest();
      const auto [place, is_new] = found.try_emplace(key, held.size());
      if (is_new) held.push_back({each, {}});
      held[place->second].servers.push_back(server.address);
    }
  }
  return held;
}

std::string NameOf(const v1::ResidentOperand& resident) {
  if (resident.digest().empty()) return absl::StrCat("@", resident.handle());
  return absl::StrCat("@", absl::BytesToHexString(resident.digest()));
}

std::string Describe(const std::vector<Asked>& servers) {
  Table states({{"server", Table::Align::kLeft},
                {"state", Table::Align::kLeft},
                {"version", Table::Align::kLeft},
                {"uptime", Table::Align::kRight},
                {"matrices", Table::Align::kRight},
                {"size", Table::Align::kRight}});
  std::string errors;
  for (const Asked& each : servers) {
    if (!each.status.ok()) {
      states.AddRow({each.address, each.state(), "", "", "", ""});
      absl::StrAppend(&errors, each.address, ": ", each.status.message(), "\n");
      continue;
    }
    states.AddRow({each.address, each.state(), each.info.version(), Human(each.info.uptime()),
                   absl::StrCat(each.residents.size()), HumanBytes(each.bytes())});
  }
  Table holders({{"size", Table::Align::kRight},
                 {"names", Table::Align::kLeft},
                 {"servers", Table::Align::kLeft},
                 {"matrix", Table::Align::kLeft}});
  const std::vector<Held> held = HeldBy(servers);
  for (const Held& each : held) {
    std::vector<std::string> names;
    for (const std::string& name : each.resident.names()) names.push_back("@" + Shown(name));
    holders.AddRow({HumanBytes(each.resident.size_bytes()),
                    names.empty() ? "none" : absl::StrJoin(names, " "),
                    absl::StrJoin(each.servers, " "), NameOf(each.resident)});
  }
  return absl::StrCat(states.Render(), errors, held.empty() ? "" : "\n",
                      held.empty() ? "" : holders.Render());
}

nlohmann::ordered_json DescribeJson(const std::vector<Asked>& servers) {
  nlohmann::ordered_json states = nlohmann::ordered_json::array();
  for (const Asked& each : servers) {
    nlohmann::ordered_json state = {{"address", each.address}, {"state", each.state()}};
    if (each.status.ok()) {
      state["version"] = each.info.version();
      state["matrices"] = each.residents.size();
      state["bytes"] = each.bytes();
    } else {
      state["why"] = std::string(each.status.message());
    }
    states.push_back(std::move(state));
  }
  nlohmann::ordered_json matrices = nlohmann::ordered_json::array();
  for (const Held& each : HeldBy(servers)) {
    nlohmann::ordered_json matrix = ToJson(each.resident);
    matrix["servers"] = each.servers;
    matrices.push_back(std::move(matrix));
  }
  return {{"servers", std::move(states)}, {"matrices", std::move(matrices)}};
}

Outcome RunServers(const GlobalOptions& global) {
  // Nothing is tried again: a server that is away is what this is to tell.
  GlobalOptions once = global;
  once.patience = absl::ZeroDuration();
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(once, connection)) return failure;
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(once, operands)) return failure;
  std::vector<Asked> servers;
  bool does_any_answer = false;
  for (const client::ServerState& state : connection->States()) {
    Asked& server = servers.emplace_back();
    server.address = state.name;
    client::CallOptions call = CallWithin(global.timeout);
    call.server = state.name;
    absl::StatusOr<v1::ServerInfoResponse> info = connection->ServerInfo(call);
    server.status = info.status();
    if (!info.ok()) continue;
    server.info = *std::move(info);
    auto residents = operands->List(call);
    server.status = residents.status();
    if (!residents.ok()) continue;
    server.residents = *std::move(residents);
    does_any_answer = true;
  }
  if (servers.empty()) {
    return ServerFailure(global.server,
                         connection->ServerInfo(CallWithin(global.timeout)).status());
  }
  if (!does_any_answer && servers.size() == 1) {
    return ServerFailure(servers[0].address, servers[0].status);
  }
  if (global.json) {
    std::cout << DescribeJson(servers).dump() << "\n";
  } else {
    std::cout << Describe(servers);
  }
  if (does_any_answer) return std::nullopt;
  Failure failure = ServerFailure(servers[0].address, servers[0].status);
  failure.why = "no server answers";
  failure.what = global.server;
  failure.in_output = true;
  return failure;
}

}  // namespace

void AddServersCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand(
      "servers", "Show the state of each server, and which of them hold a matrix");
  app.footer(Footer(kExamples));
  app.callback(
      [&commands] { commands.selected = [&commands] { return RunServers(commands.global); }; });
}

}  // namespace gemmd::cli
