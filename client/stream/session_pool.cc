#include "client/stream/session_pool.h"

#include <utility>

namespace gemmd::client {

SessionPool::SessionPool(const ChannelOptions& options, std::shared_ptr<grpc::Channel> first)
    : options_(options), channels_{std::move(first)} {
  options_.own_connection = true;
}

SessionPool::~SessionPool() {
  for (const auto& [channels, session] : sessions_) {
    session->Close(absl::CancelledError("the client ends"));
  }
  count_->WaitForNone();
}

std::shared_ptr<StreamSession> SessionPool::Get(int channels) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<StreamSession>* session = &sessions_[single_ ? 1 : channels];
  if (*session != nullptr && !(*session)->accepting()) Learn(**session);
  if (single_) session = &sessions_[channels = 1];
  if (*session != nullptr && (*session)->accepting()) return *session;
  while (static_cast<int>(channels_.size()) < channels) channels_.push_back(MakeChannel(options_));
  *session = StreamSession::Open({channels_.begin(), channels_.begin() + channels}, count_);
  return *session;
}

bool SessionPool::is_unimplemented() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return unimplemented_;
}

void SessionPool::Learn(const StreamSession& ended) {
  single_ = single_ || ended.refused_streams();
  unimplemented_ = unimplemented_ || ended.is_unimplemented();
}

}  // namespace gemmd::client
