// StreamPeer behind a real socket: gRPC's callback service with the generated messages.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/client/testing/stream_peer.h"

namespace gemmd::testing {

// Thread-safe.
class StreamServer final : private v1::Gemm::CallbackService {
 public:
  explicit StreamServer(std::uint64_t seed = 1);
  // Clients that are still connected are cut off.
  ~StreamServer() override;

  std::string target() const;

  // With the peer, while nothing else uses it.
  void With(const std::function<void(StreamPeer&)>& use);
  // Ends every stream that is open, with this status.
  void EndStreams(const grpc::Status& status);
  // Streams with a Join end so.
  void RefuseJoins(const grpc::Status& status);
  int streams() const;  // so far
  // Waits until the condition holds. It is asked again after each message.
  void WaitUntil(const std::function<bool(const StreamPeer&)>& condition);

 private:
  class Stream;

  grpc::ServerBidiReactor<v1::MatmulStreamRequest, v1::MatmulStreamResponse>* MatmulStream(
      grpc::CallbackServerContext* context) override;

  int port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  StreamPeer peer_;
  int streams_ = 0;
  std::map<int, Stream*> open_;
  grpc::Status refuse_joins_;
  std::unique_ptr<grpc::Server> server_;  // last: handlers use what stands above
};

}  // namespace gemmd::testing
