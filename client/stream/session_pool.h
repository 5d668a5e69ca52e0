// A client's sessions: opened when they are wanted, replaced when they have broken.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/sync/mutex.h"
#include "client/calls/call_count.h"
#include "client/channel.h"
#include "client/stream/stream_session.h"

namespace gemmd::client {

// Thread-safe.
class SessionPool {
 public:
  // `first` is every session's first channel; further channels have connections of their own.
  // Get(1) takes `streams` sessions in turn.
  SessionPool(const ChannelOptions& options, std::shared_ptr<grpc::Channel> first, int streams = 1);
  // Ends all sessions and waits for them. REQUIRES: no request in flight, no Get() meanwhile,
  // and not on a thread of gRPC's.
  ~SessionPool();
  SessionPool(const SessionPool&) = delete;
  SessionPool& operator=(const SessionPool&) = delete;

  // Returns a session that accepted requests a moment ago, over `channels` connections. It has one
  // connection where the server has refused more, as behind a balancer that spreads connections
  // over servers.
  std::shared_ptr<StreamSession> Get(int channels);

  // The server has no MatmulStream.
  bool is_unimplemented() const;

 private:
  void Learn(const StreamSession& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ChannelOptions options_;
  const int streams_;
  const std::shared_ptr<CallCount> count_ = std::make_shared<CallCount>();
  mutable Mutex mutex_;
  bool single_ ABSL_GUARDED_BY(mutex_) = false;
  bool unimplemented_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
  int turn_ ABSL_GUARDED_BY(mutex_) = 0;
  // Keyed by the number of channels, and by turn among sessions of one channel.
  std::map<std::pair<int, int>, std::shared_ptr<StreamSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::client
