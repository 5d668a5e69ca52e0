#include "server/tenants/quota.h"

namespace gemmd {

absl::string_view Name(Quantity quantity) {
  switch (quantity) {
    case Quantity::kRequests:
      return "requests";
    case Quantity::kRequestBytes:
      return "request_bytes";
    case Quantity::kResidentBytes:
      return "resident_bytes";
    case Quantity::kRegions:
      return "regions";
    case Quantity::kConnections:
      return "connections";
  }
  return "";
}

}  // namespace gemmd
