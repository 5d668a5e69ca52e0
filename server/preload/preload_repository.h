// The files of operands.preload as a repository of models.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "base/sync/mutex.h"
#include "server/admission/validation.h"
#include "server/device/keyed_pool.h"
#include "server/preload/preload.h"
#include "server/rpc/oip/model_repository.h"
#include "server/store/operand_store.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// One load at a time, on a thread of its own: reading and hashing a large file takes as long as it
// takes. The files are the tenant's alone, whose share and quota they count in.
class PreloadRepository final : public ModelRepository {
 public:
  // Loads that wait for their turn; one more is refused.
  static constexpr std::size_t kMostWaiting = 16;

  // `option`: as OpenPreload() takes it. The store outlives this.
  PreloadRepository(std::string option, Tenant tenant, const RequestLimits& limits,
                    OperandStore* store);

  // Takes the names of the matrices that the files had at the start.
  void SetNames(const std::vector<PreloadedFile>& files);

  std::vector<std::string> NamesFor(const Tenant& tenant) const override;
  void Load(const Tenant& tenant, const std::string& name, Done done) override;

 private:
  absl::Status LoadNow(const std::string& name);

  const std::string option_;
  const Tenant tenant_;
  const RequestLimits limits_;
  OperandStore* const store_;
  mutable Mutex mutex_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  KeyedPool thread_{1};  // last: it uses all else
};

}  // namespace gemmd
