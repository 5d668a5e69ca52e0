#include "client/stream/session_pool.h"

#include <utility>

namespace gemmd::client {

SessionPool::SessionPool(const ChannelOptions& options, std::shared_ptr<grpc::Channel> first,
                         int streams)
    : options_(options), streams_(streams), channels_{std::move(first)} {
  options_.own_connection = true;
}

SessionPool::~SessionPool() {
  for (const auto& [key, session] : sessions_) {
    session->Close(absl::CancelledError("the client ends"));
  }
  count_->WaitForNone();
}

std::shared_ptr<StreamSession> SessionPool::Get(int channels) {
  const MutexLock lock(mutex_);
  const auto slot = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> std::shared_ptr<StreamSession>& {
    if (single_) channels = 1;
    if (channels == 1) turn_ = (turn_ + 1) % streams_;
    return sessions_[{channels, channels == 1 ? turn_ : 0}];
  };
  std::shared_ptr<StreamSession>* session = &slot();
  if (*session != nullptr && !(*session)->accepting()) {
    Learn(**session);
    if (single_) session = &slot();
  }
  if (*session != nullptr && (*session)->accepting()) return *session;
  while (static_cast<int>(channels_.size()) < channels) channels_.push_back(MakeChannel(options_));
  *session = StreamSession::Open({channels_.begin(), channels_.begin() + channels}, count_);
  return *session;
}

bool SessionPool::is_unimplemented() const {
  const MutexLock lock(mutex_);
  return unimplemented_;
}

void SessionPool::Learn(const StreamSession& ended) {
  single_ = single_ || ended.refused_streams();
  unimplemented_ = unimplemented_ || ended.is_unimplemented();
}

}  // namespace gemmd::client
