// Files of which models are made while the server runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// Thread-safe.
class ModelRepository {
 public:
  using Done = std::function<void(const absl::Status&)>;

  virtual ~ModelRepository() = default;

  // The matrices that the tenant may load, as far as they were seen.
  virtual std::vector<std::string> NamesFor(const Tenant& tenant) const = 0;

  // Makes the matrix of that name, as its file is now, an operand of the tenant's under that name;
  // another operand loses it and goes. `done` is called exactly once, perhaps on another thread.
  //   NOT_FOUND            the tenant has no repository, or no file of it has such a matrix
  //   RESOURCE_EXHAUSTED   too many loads wait
  //   and what reading the file, and the store, say
  virtual void Load(const Tenant& tenant, const std::string& name, Done done) = 0;
};

}  // namespace gemmd
