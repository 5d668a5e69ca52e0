// Whose operands they are.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// A value. Tenants that called themselves so and those that proved it never are the same.
class Tenant {
 public:
  // The one without a name, whose operands are those of all clients that give none.
  Tenant() = default;
  // As a client calls itself: up to 64 of A-Z a-z 0-9 . _ -; "" is no name.
  // INVALID_ARGUMENT otherwise.
  static absl::StatusOr<Tenant> Named(absl::string_view name);
  // As its token or its certificate says.
  static Tenant Authenticated(absl::string_view identity);

  // Unique; for logs.
  const std::string& key() const { return key_; }

  friend bool operator==(const Tenant& x, const Tenant& y) { return x.key_ == y.key_; }
  friend bool operator!=(const Tenant& x, const Tenant& y) { return x.key_ != y.key_; }
  friend bool operator<(const Tenant& x, const Tenant& y) { return x.key_ < y.key_; }

 private:
  explicit Tenant(std::string key) : key_(std::move(key)) {}

  std::string key_;
};

}  // namespace gemmd
