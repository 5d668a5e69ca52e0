// The rights of a caller, as a set of roles.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace gemmd {

enum class Role : std::uint8_t {
  kUser,      // multiplies, stores matrices, registers memory
  kObserver,  // reads what the server does for everybody
  kOperator,  // changes how the server works
};

inline constexpr Role kAllRoles[] = {Role::kUser, Role::kObserver, Role::kOperator};

// "user", "observer", "operator".
const char* Name(Role role);

// A value.
class Roles {
 public:
  constexpr Roles() = default;
  constexpr Roles(std::initializer_list<Role> roles) {
    for (const Role role : roles) bits_ |= BitOf(role);
  }
  static constexpr Roles All() { return {Role::kUser, Role::kObserver, Role::kOperator}; }

  constexpr void Add(Role role) { bits_ |= BitOf(role); }
  constexpr bool Has(Role role) const { return (bits_ & BitOf(role)) != 0; }
  constexpr bool HasAnyOf(Roles others) const { return (bits_ & others.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

  friend constexpr bool operator==(Roles x, Roles y) { return x.bits_ == y.bits_; }
  friend constexpr bool operator!=(Roles x, Roles y) { return x.bits_ != y.bits_; }

 private:
  static constexpr std::uint8_t BitOf(Role role) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(role));
  }

  std::uint8_t bits_ = 0;
};

// "user or operator"; "none" of an empty set.
std::string ToString(Roles roles);

}  // namespace gemmd
