#include "server/auth/policy_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/process/read_file.h"
#include "base/text/quoted.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

// Ten thousand tokens have two.
constexpr std::size_t kMostBytes = 16 << 20;

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  absl::StatusOr<std::string> text = ReadRegularFile(path, kMostBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat("it ", text.status().message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PolicyFile>> PolicyFile::Open(const std::string& path,
                                                             std::chrono::milliseconds period) {
  std::unique_ptr<PolicyFile> file(new PolicyFile(path));
  if (path.empty()) {
    const MutexLock lock(file->policy_mutex_);
    file->policy_ = std::make_shared<const Policy>(Policy::Open());
    return file;
  }
  if (absl::Status s = file->ReadIfChanged(); !s.ok()) return s;
  if (period.count() > 0) {
    file->watcher_ = std::thread([file = file.get(), period] { file->Watch(period); });
  }
  return file;
}

PolicyFile::~PolicyFile() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

std::shared_ptr<const Policy> PolicyFile::policy() const {
  const MutexLock lock(policy_mutex_);
  return policy_;
}

absl::Status PolicyFile::ReadIfChanged() {
  const MutexLock reading(reading_);
  auto now = last_read_;
  for (auto& [path, text] : now) text = ReadWhole(path);
  if (!now.empty() && now == last_read_) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadWhole(path_);
  last_read_ = {{path_, text}};
  const auto read = [this](const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_) {
    return last_read_.insert_or_assign(path, ReadWhole(path)).first->second;
  };
  absl::StatusOr<Policy> policy = text.ok() ? Policy::Parse(*text, read) : text.status();
  if (!policy.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("auth.policy_file is ", Quoted(path_), ": ", policy.status().message()));
  }
  auto changed = std::make_shared<const Policy>(*std::move(policy));
  const MutexLock lock(policy_mutex_);
  policy_ = std::move(changed);
  return absl::OkStatus();
}

void PolicyFile::Reload() {
  if (path_.empty()) return;
  const std::shared_ptr<const Policy> before = policy();
  const absl::Status status = ReadIfChanged();
  if (!status.ok()) {
    Log(Severity::kError, "policy_unchanged", {{"error", status.message()}});
  } else if (policy() != before) {
    Log(Severity::kInfo, "policy_changed", {{"file", path_}});
    LogExpiredTokens();
  }
}

void PolicyFile::LogExpiredTokens() const {
  for (const std::string& name : policy()->ExpiredTokens(absl::Now())) {
    Log(Severity::kWarning, "token_expired", {{"token", name}, {"file", path_}});
  }
}

void PolicyFile::Watch(std::chrono::milliseconds period) {
  RelockableMutexLock lock(mutex_);
  while (!stop_.wait_for(mutex_, period, stopping_)) {
    lock.unlock();
    Reload();
    lock.lock();
  }
}

}  // namespace gemmd
