#include "client/cli/views/holdings_table.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/table.h"

namespace gemmd::cli {
namespace {

std::string HolderOf(const v1::Holding& holding) {
  switch (holding.party()) {
    case v1::Holding::ALL:
      return "all";
    case v1::Holding::TENANT:
      return holding.name().empty() ? "tenant without a name"
                                    : absl::StrCat("tenant ", holding.name());
    case v1::Holding::ADDRESS:
      return absl::StrCat("address ", holding.name());
    default:
      return holding.name();  // of a newer server
  }
}

}  // namespace

std::string DescribeHoldings(const google::protobuf::RepeatedPtrField<v1::Holding>& holdings) {
  if (holdings.empty()) return "";
  Table table({{"quantity", Table::Align::kLeft},
               {"device", Table::Align::kLeft},
               {"held by", Table::Align::kLeft},
               {"held", Table::Align::kRight},
               {"limit", Table::Align::kRight},
               {"%", Table::Align::kRight}});
  for (const v1::Holding& each : holdings) {
    const bool is_bytes = absl::EndsWith(each.quantity(), "bytes");
    const auto amount = [is_bytes](std::uint64_t value) {
      return is_bytes ? HumanBytes(value) : absl::StrCat(value);
    };
    const bool is_limited = each.has_limit();
    const double share = is_limited && each.limit() != 0
                             ? static_cast<double>(each.held()) / static_cast<double>(each.limit())
                             : 0;
    table.AddRow({each.quantity(), each.device(), HolderOf(each), amount(each.held()),
                  is_limited ? amount(each.limit()) : "none",
                  is_limited ? absl::StrFormat("%.0f", 100 * share) : ""});
  }
  return table.Render();
}

}  // namespace gemmd::cli
