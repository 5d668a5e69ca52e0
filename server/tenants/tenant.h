// A tenant, to whom requests and operands belong.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/tenants/quota.h"

namespace gemmd {

// A call, as the log names it.
struct CallOrigin {
  std::string peer;
  std::string method;
};

// A value. Tenants that called themselves so and those that proved it never are the same.
class Tenant {
 public:
  // The one without a name, whose operands are those of all clients that give none.
  Tenant() = default;
  // A tenant as a client calls itself: up to 64 of A-Z a-z 0-9 . _ -; "" is no name.
  // INVALID_ARGUMENT otherwise.
  static absl::StatusOr<Tenant> Named(absl::string_view name);
  // A tenant as its token or its certificate says.
  static Tenant Authenticated(absl::string_view identity);

  // Unique; for logs.
  const std::string& key() const { return key_; }
  // Returns whether it is what a token or a certificate says, and not only what a client claims.
  bool is_proven() const;

  // Its limits, as the policy said when it was asked; null: no quota limits it. They are no part of
  // its identity.
  const Quota* quota() const { return quota_.get(); }
  Tenant With(std::shared_ptr<const Quota> quota) const {
    Tenant tenant = *this;
    tenant.quota_ = std::move(quota);
    return tenant;
  }

  // The call that it was asked for in; null: none. It is for the log of refusals, and no part of
  // the tenant's identity.
  const CallOrigin* origin() const { return origin_.get(); }
  Tenant From(CallOrigin origin) const {
    Tenant tenant = *this;
    tenant.origin_ = std::make_shared<const CallOrigin>(std::move(origin));
    return tenant;
  }

  // The address that the call came from, as limits count addresses; empty: none. It is no part of
  // the tenant's identity.
  const std::string& address() const { return address_; }
  Tenant At(std::string address) const {
    Tenant tenant = *this;
    tenant.address_ = std::move(address);
    return tenant;
  }

  friend bool operator==(const Tenant& x, const Tenant& y) { return x.key_ == y.key_; }
  friend bool operator!=(const Tenant& x, const Tenant& y) { return x.key_ != y.key_; }
  friend bool operator<(const Tenant& x, const Tenant& y) { return x.key_ < y.key_; }

 private:
  explicit Tenant(std::string key) : key_(std::move(key)) {}

  std::string key_;
  std::string address_;
  std::shared_ptr<const Quota> quota_;
  std::shared_ptr<const CallOrigin> origin_;
};

}  // namespace gemmd
