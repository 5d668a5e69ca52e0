// gemm info: what the server is and what it has.
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/quota_table.h"
#include "client/cli/views/table.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm info
  gemm --server gpu-node:50051 info --json
)";

std::string Describe(const std::string& server, const v1::ServerInfoResponse& info) {
  Table facts({{}, {}});
  facts.AddRow({"server", absl::StrCat(server, ", gemmd ", info.version())});
  facts.AddRow({"state", info.draining() ? "draining" : "serving"});
  facts.AddRow({"uptime", Human(info.uptime())});
  const v1::Limits& limits = info.limits();
  facts.AddRow(
      {"limits", absl::StrCat("message ", HumanBytes(limits.message_bytes()), ", request ",
                              HumanBytes(limits.request_bytes()), ", dimension ",
                              limits.dimension(), ", queue ", limits.queue_requests(),
                              " requests, connection ", limits.calls_per_connection(), " calls")});
  if (info.unimplemented_rpcs_size() > 0) {
    facts.AddRow({"not built", absl::StrJoin(info.unimplemented_rpcs(), ", ")});
  }
  AddQuota(info.quota(), &facts);
  Table devices({{"device", Table::Align::kLeft},
                 {"model", Table::Align::kLeft},
                 {"architecture", Table::Align::kLeft},
                 {"units", Table::Align::kRight},
                 {"memory", Table::Align::kRight},
                 {"resident", Table::Align::kRight},
                 {"workspace", Table::Align::kRight},
                 {"in flight", Table::Align::kRight},
                 {"free", Table::Align::kRight}});
  const auto add = [&devices](const v1::DeviceInfo& device, const std::string& name,
                              const v1::MemoryUsage& memory) {
    devices.AddRow({name, device.model(), device.architecture(),
                    absl::StrCat(device.compute_units()), HumanBytes(memory.limit_bytes()),
                    HumanBytes(memory.resident_bytes()), HumanBytes(memory.workspace_bytes()),
                    HumanBytes(memory.in_flight_bytes()), HumanBytes(memory.free_bytes())});
  };
  for (const v1::DeviceInfo& device : info.devices()) {
    add(device, device.name(), device.memory());
    if (device.has_pinned_memory()) add(device, device.name() + " pinned", device.pinned_memory());
  }
  return absl::StrCat(facts.Render(), "\n", devices.Render());
}

Outcome RunInfo(const GlobalOptions& global) {
  if (Outcome failure = WantOneServer(global, "info")) return failure;
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  const auto info = connection->ServerInfo(CallWithin(global.timeout));
  if (!info.ok()) return ServerFailure(global.server, info.status());
  if (global.json) {
    std::cout << ToJson(*info).dump() << "\n";
  } else {
    std::cout << Describe(global.server, *info);
  }
  return std::nullopt;
}

}  // namespace

void AddInfoCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand("info", "Show the server: version, limits, devices");
  app.footer(Footer(kExamples));
  app.callback(
      [&commands] { commands.selected = [&commands] { return RunInfo(commands.global); }; });
}

}  // namespace gemmd::cli
