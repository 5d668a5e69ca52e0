#include "server/store/missing.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gemmd {
namespace {

// Hexadecimal, separated by commas.
constexpr char kDigestsUrl[] = "gemmd/missing-digests";
constexpr char kHandlesUrl[] = "gemmd/missing-handles";
constexpr char kNamesUrl[] = "gemmd/missing-names";

void Set(const char* url, const std::vector<std::string>& values, absl::Status* status) {
  if (values.empty()) return;
  std::string text;
  for (const std::string& each : values) {
    absl::StrAppend(&text, text.empty() ? "" : ",", absl::BytesToHexString(each));
  }
  status->SetPayload(url, absl::Cord(text));
}

std::vector<std::string> Get(const char* url, const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  std::vector<std::string> values;
  if (!payload.has_value()) return values;
  for (absl::string_view each : absl::StrSplit(std::string(*payload), ',')) {
    values.push_back(absl::HexStringToBytes(each));
  }
  return values;
}

}  // namespace

absl::Status WithMissing(absl::Status status, const MissingOperands& missing) {
  Set(kDigestsUrl, missing.digests, &status);
  Set(kHandlesUrl, missing.handles, &status);
  Set(kNamesUrl, missing.names, &status);
  return status;
}

MissingOperands MissingOf(const absl::Status& status) {
  return {Get(kDigestsUrl, status), Get(kHandlesUrl, status), Get(kNamesUrl, status)};
}

absl::Status MergeMissing(absl::Status first, const absl::Status& second) {
  MissingOperands missing = MissingOf(first);
  const MissingOperands more = MissingOf(second);
  missing.digests.insert(missing.digests.end(), more.digests.begin(), more.digests.end());
  missing.handles.insert(missing.handles.end(), more.handles.begin(), more.handles.end());
  missing.names.insert(missing.names.end(), more.names.begin(), more.names.end());
  return WithMissing(std::move(first), missing);
}

}  // namespace gemmd
