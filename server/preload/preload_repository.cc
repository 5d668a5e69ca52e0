#include "server/preload/preload_repository.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "server/tenants/retry_after.h"

namespace gemmd {

PreloadRepository::PreloadRepository(std::string option, Tenant tenant, const RequestLimits& limits,
                                     OperandStore* store)
    : option_(std::move(option)), tenant_(std::move(tenant)), limits_(limits), store_(store) {}

void PreloadRepository::SetNames(const std::vector<PreloadedFile>& files) {
  const MutexLock lock(mutex_);
  names_.clear();
  for (const PreloadedFile& file : files) {
    for (const PreloadedMatrix& matrix : file.matrices) names_.insert(matrix.name);
  }
}

std::vector<std::string> PreloadRepository::NamesFor(const Tenant& tenant) const {
  if (tenant != tenant_) return {};
  const MutexLock lock(mutex_);
  return {names_.begin(), names_.end()};
}

void PreloadRepository::Load(const Tenant& tenant, const std::string& name, Done done) {
  if (tenant != tenant_ || option_.empty()) {
    return done(
        absl::NotFoundError("you have no repository of models on this server "
                            "(operands.preload, operands.preload_tenant)"));
  }
  {
    const MutexLock lock(mutex_);
    if (waiting_ == kMostWaiting) {
      return done(WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                                     waiting_, " models wait to be loaded, which is the limit")),
                                 WaitsFor::kClients));
    }
    ++waiting_;
  }
  thread_.Post(0, [this, name, done = std::move(done)] {
    const absl::Status status = LoadNow(name);
    {
      const MutexLock lock(mutex_);
      --waiting_;
    }
    done(status);
  });
}

absl::Status PreloadRepository::LoadNow(const std::string& name) {
  // Read anew: a file may have come, gone or changed.
  const absl::StatusOr<std::vector<PreloadedFile>> files = OpenPreload(option_);
  if (!files.ok()) return files.status();
  SetNames(*files);
  for (const PreloadedFile& file : *files) {
    for (const PreloadedMatrix& matrix : file.matrices) {
      if (matrix.name == name) return PutAgain(file, matrix, tenant_, limits_, store_);
    }
  }
  return absl::NotFoundError(
      absl::StrCat("no file of operands.preload has a matrix ", Quoted(name)));
}

}  // namespace gemmd
