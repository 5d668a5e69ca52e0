// The caller's identity, and the evidence for it.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/auth/roles.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// The credentials that a caller shows, whether they are believed or not. A value.
struct CallerCredentials {
  std::string token;             // of "authorization: Bearer TOKEN"; empty: none
  std::string tenant;            // of gemmd-tenant; empty: none
  bool has_certificate = false;  // which the TLS handshake has verified
  std::string common_name;       // the certificate's, as the three below
  std::string spiffe_id;
  std::vector<std::string> alternative_names;
  bool token_may_be_read = false;  // by whoever is on its way: it came in plain text
};

struct Identity {
  Tenant tenant;
  std::string name;  // "token ci", "certificate spiffe://...", "nobody": for the log
  Roles roles;
  absl::Time expires = absl::InfiniteFuture();
};

}  // namespace gemmd
