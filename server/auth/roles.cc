#include "server/auth/roles.h"

namespace gemmd {

const char* Name(Role role) {
  switch (role) {
    case Role::kUser:
      return "user";
    case Role::kObserver:
      return "observer";
    case Role::kOperator:
      return "operator";
  }
  return "?";
}

std::string ToString(Roles roles) {
  std::string text;
  for (const Role role : kAllRoles) {
    if (!roles.Has(role)) continue;
    if (!text.empty()) text += " or ";
    text += Name(role);
  }
  return text.empty() ? "none" : text;
}

}  // namespace gemmd
