#include "tests/client/testing/stream_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"

namespace gemmd::testing {

// Reads and writes under the server's lock: gRPC calls nobody back from within.
class StreamServer::Stream final
    : public grpc::ServerBidiReactor<v1::MatmulStreamRequest, v1::MatmulStreamResponse> {
 public:
  Stream(StreamServer& server, int number) : server_(server), number_(number) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard<std::mutex> lock(server_.mutex_);
    if (!ok) return End(grpc::Status::OK);
    if (request_.has_join() && !server_.refuse_joins_.ok()) return End(server_.refuse_joins_);
    server_.peer_.Receive(number_, request_);
    server_.changed_.notify_all();
    // A message of one stream may make answers for another.
    for (const auto& [number, stream] : server_.open_) stream->Write();
    if (!ended_) StartRead(&request_);
  }

  void OnWriteDone(bool /*ok*/) override {
    const std::lock_guard<std::mutex> lock(server_.mutex_);
    writing_ = false;
    Write();
  }

  void OnDone() override {
    {
      const std::lock_guard<std::mutex> lock(server_.mutex_);
      server_.open_.erase(number_);
      server_.changed_.notify_all();
    }
    delete this;
  }

  // REQUIRES: the server is locked, for all that follows.
  void End(const grpc::Status& status) {
    if (std::exchange(ended_, true)) return;
    Finish(status);
  }
  void Write() {
    if (writing_ || ended_) return;
    std::optional<v1::MatmulStreamResponse> response = server_.peer_.Send(number_);
    if (!response) return;
    response_ = *std::move(response);
    writing_ = true;
    StartWrite(&response_);
  }

 private:
  StreamServer& server_;
  const int number_;
  v1::MatmulStreamRequest request_;
  v1::MatmulStreamResponse response_;
  bool writing_ = false;
  bool ended_ = false;
};

StreamServer::StreamServer(std::uint64_t seed) : peer_(seed) {
  static const bool initialised = [] {
    grpc_init();
    return true;
  }();
  (void)initialised;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(static_cast<v1::Gemm::CallbackService*>(this));
  server_ = builder.BuildAndStart();
}

StreamServer::~StreamServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

std::string StreamServer::target() const { return absl::StrCat("127.0.0.1:", port_); }

void StreamServer::With(const std::function<void(StreamPeer&)>& use) {
  const std::lock_guard<std::mutex> lock(mutex_);
  use(peer_);
}

void StreamServer::EndStreams(const grpc::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [number, stream] : open_) stream->End(status);
}

void StreamServer::RefuseJoins(const grpc::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  refuse_joins_ = status;
}

int StreamServer::streams() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return streams_;
}

void StreamServer::WaitUntil(const std::function<bool(const StreamPeer&)>& condition) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return condition(peer_); });
}

grpc::ServerBidiReactor<v1::MatmulStreamRequest, v1::MatmulStreamResponse>*
StreamServer::MatmulStream(grpc::CallbackServerContext* /*context*/) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int number = streams_++;
  auto* stream = new Stream(*this, number);
  open_[number] = stream;
  return stream;
}

}  // namespace gemmd::testing
