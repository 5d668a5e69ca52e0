// The roles that each method of the server asks for: one table.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/auth/roles.h"

namespace gemmd {

struct MethodRoles {
  const char* method = "";  // "/gemmd.v1.Gemm/Matmul"
  Roles any_of;             // a caller needs one of them; empty: the method is open to everybody
  bool is_audited = false;  // the log names each caller
};

// Every method that the server serves.
absl::Span<const MethodRoles> AllMethodRoles();

// The table's row; null where it has none, and nobody may be served.
const MethodRoles* RolesOf(absl::string_view method);

}  // namespace gemmd
