#include "client/cli/views/resident_table.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/table.h"
#include "client/wire/wire_types.h"

namespace gemmd::cli {
namespace {

// A result that was kept has none.
std::string Digest(const v1::ResidentOperand& resident) {
  if (resident.digest().empty()) return "none";
  return absl::StrCat("@", absl::BytesToHexString(resident.digest()));
}

std::string Matrix(const v1::Operand& operand) {
  const auto format = client::FormatOf(operand.data());
  if (!format.ok()) return std::string(format.status().message());
  return absl::StrCat(client::ToString(*format), operand.has_scales() ? ", scales" : "");
}

}  // namespace

std::string ResidentTable(const std::vector<v1::ResidentOperand>& residents) {
  Table table({{"handle", Table::Align::kLeft},
               {"matrix", Table::Align::kLeft},
               {"size", Table::Align::kRight},
               {"on device", Table::Align::kRight},
               {"leased for", Table::Align::kRight},
               {"digest", Table::Align::kLeft}});
  for (const v1::ResidentOperand& each : residents) {
    table.AddRow({absl::StrCat("@", each.handle()), Matrix(each.operand()),
                  HumanBytes(each.size_bytes()), HumanBytes(each.device_bytes()),
                  Human(each.lease_remaining()), Digest(each)});
  }
  return table.Render();
}

client::OperandName ParseName(absl::string_view text) {
  return client::ParseOperandName(absl::StripPrefix(text, "@"));
}

}  // namespace gemmd::cli
