#include "client/cli/views/resident_table.h"

#include <algorithm>
#include <utility>

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

// A name may be any text; some have dozens.
std::string Names(const v1::ResidentOperand& resident) {
  constexpr int kMostShown = 2;
  std::string text;
  for (int i = 0; i < std::min(kMostShown, resident.names_size()); ++i) {
    absl::StrAppend(&text, i == 0 ? "@" : " @", Shown(resident.names(i)));
  }
  if (resident.names_size() > kMostShown) {
    absl::StrAppend(&text, " and ", resident.names_size() - kMostShown, " more");
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string ResidentTable(const std::vector<v1::ResidentOperand>& residents, bool with_tenants) {
  std::vector<Table::Column> columns = {
      {"handle", Table::Align::kLeft},      {"matrix", Table::Align::kLeft},
      {"size", Table::Align::kRight},       {"on device", Table::Align::kRight},
      {"leased for", Table::Align::kRight}, {"names", Table::Align::kLeft},
      {"digest", Table::Align::kLeft}};
  if (with_tenants) columns.insert(columns.begin(), {"tenant", Table::Align::kLeft});
  Table table(std::move(columns));
  for (const v1::ResidentOperand& each : residents) {
    std::vector<std::string> cells = {absl::StrCat("@", each.handle()),
                                      Matrix(each.operand()),
                                      HumanBytes(each.size_bytes()),
                                      HumanBytes(each.device_bytes()),
                                      Human(each.lease_remaining()),
                                      Names(each),
                                      Digest(each)};
    if (with_tenants) {
      cells.insert(cells.begin(), each.tenant().empty() ? "none" : each.tenant());
    }
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

client::OperandName ParseName(absl::string_view text) {
  return client::ParseOperandName(absl::StripPrefix(text, "@"));
}

}  // namespace gemmd::cli
