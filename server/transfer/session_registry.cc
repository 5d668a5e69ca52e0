#include "server/transfer/session_registry.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/status/status.h"

namespace gemmd {
namespace {

std::string NewToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t word = random();
    token.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return token;
}

}  // namespace

SessionRegistry::SessionRegistry(const Clock* clock, std::chrono::milliseconds period)
    : clock_(clock) {
  if (period.count() > 0) watcher_ = std::thread([this, period] { Watch(period); });
}

SessionRegistry::~SessionRegistry() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void SessionRegistry::Add(const std::shared_ptr<MatmulSession>& session) {
  bool is_draining = false;
  {
    const MutexLock lock(mutex_);
    sessions_.push_back(session);
    is_draining = is_draining_;
  }
  if (is_draining) session->StartDraining();
}

std::string SessionRegistry::Open(const std::shared_ptr<MatmulSession>& session,
                                  const std::string& tenant) {
  std::string token = NewToken();
  const MutexLock lock(mutex_);
  by_token_[token] = {session, tenant};
  return token;
}

absl::StatusOr<std::shared_ptr<MatmulSession>> SessionRegistry::Find(
    const std::string& token, const std::string& tenant) const {
  const MutexLock lock(mutex_);
  const auto found = by_token_.find(token);
  std::shared_ptr<MatmulSession> session =
      found == by_token_.end() ? nullptr : found->second.session.lock();
  if (session != nullptr && found->second.tenant != tenant) session = nullptr;
  if (session != nullptr) return session;
  return absl::NotFoundError("join.session is of no session on this server");
}

std::vector<std::shared_ptr<MatmulSession>> SessionRegistry::Sessions() {
  std::vector<std::shared_ptr<MatmulSession>> alive;
  const MutexLock lock(mutex_);
  for (auto it = by_token_.begin(); it != by_token_.end();) {
    it = it->second.session.expired() ? by_token_.erase(it) : std::next(it);
  }
  sessions_.erase(std::remove_if(sessions_.begin(), sessions_.end(),
                                 [&alive](const std::weak_ptr<MatmulSession>& each) {
                                   std::shared_ptr<MatmulSession> session = each.lock();
                                   if (session == nullptr) return true;
                                   alive.push_back(std::move(session));
                                   return false;
                                 }),
                  sessions_.end());
  return alive;
}

void SessionRegistry::EndLate() {
  for (const auto& session : Sessions()) session->EndLate(clock_->Now());
}

void SessionRegistry::StartDraining() {
  {
    const MutexLock lock(mutex_);
    is_draining_ = true;
  }
  for (const auto& session : Sessions()) session->StartDraining();
}

void SessionRegistry::Watch(std::chrono::milliseconds period) {
  RelockableMutexLock lock(mutex_);
  while (!stop_.wait_for(mutex_, period, stopping_)) {
    lock.unlock();
    EndLate();
    lock.lock();
  }
}

}  // namespace gemmd
