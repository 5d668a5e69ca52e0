#include "client/load/transport/echo_server.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/sync/mutex.h"
#include "client/load/transport/busy_worker.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"

namespace gemmd::load {
namespace {

// `bytes` of the request's slices, and zeros beyond.
grpc::ByteBuffer Answer(const grpc::ByteBuffer& request, std::uint64_t bytes) {
  if (request.Length() == bytes) return request;
  std::vector<grpc::Slice> slices;
  if (!request.Dump(&slices).ok()) slices.clear();
  std::vector<grpc::Slice> answer;
  for (const grpc::Slice& slice : slices) {
    if (bytes == 0) break;
    const std::uint64_t taken = std::min<std::uint64_t>(bytes, slice.size());
    answer.push_back(taken == slice.size() ? slice : slice.sub(0, taken));
    bytes -= taken;
  }
  static const std::vector<char>& zeros = *new std::vector<char>(1 << 20);
  while (bytes > 0) {
    const std::uint64_t taken = std::min<std::uint64_t>(bytes, zeros.size());
    answer.emplace_back(zeros.data(), taken, grpc::Slice::STATIC_SLICE);
    bytes -= taken;
  }
  return {answer.data(), answer.size()};
}

class EchoReactor final : public grpc::ServerGenericBidiReactor {
 public:
  // Answers after the worker's work, if there is one.
  EchoReactor(std::uint64_t bytes, BusyWorker* worker, std::chrono::microseconds work)
      : bytes_(bytes), worker_(worker), work_(work) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no message came"));
    if (worker_ == nullptr) return Reply();
    worker_->Work(work_, [this] { Reply(); });
  }
  void OnDone() override { delete this; }

 private:
  void Reply() {
    answer_ = Answer(request_, bytes_);
    request_.Clear();
    StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
  }

  const std::uint64_t bytes_;
  BusyWorker* const worker_;
  const std::chrono::microseconds work_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
};

// Answers each message of a stream with one of so many bytes, reading on meanwhile.
class EchoStreamReactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit EchoStreamReactor(std::uint64_t bytes) : bytes_(bytes) { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    const MutexLock lock(mutex_);
    if (ok) {
      answers_.push_back(Answer(request_, bytes_));
      request_.Clear();
      StartRead(&request_);
    } else {
      read_ended_ = true;
    }
    Write();
  }
  void OnWriteDone(bool /*ok*/) override {
    const MutexLock lock(mutex_);
    answers_.pop_front();
    writing_ = false;
    Write();
  }
  void OnDone() override { delete this; }

 private:
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_) return;
    if (!answers_.empty()) {
      writing_ = true;
      StartWrite(&answers_.front());
    } else if (read_ended_) {
      Finish(grpc::Status::OK);
    }
  }

  const std::uint64_t bytes_;
  grpc::ByteBuffer request_;
  Mutex mutex_;
  std::deque<grpc::ByteBuffer> answers_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

std::shared_ptr<grpc::ServerCredentials> Credentials(const std::optional<CertifiedKey>& tls) {
  if (!tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({tls->key, tls->certificate});
  return grpc::SslServerCredentials(options);
}

class NotFound final : public grpc::ServerGenericBidiReactor {
 public:
  NotFound() {
    Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                        "the method is /echo/BYTES, /echo/BYTES/US or /echo-stream/BYTES"));
  }
  void OnDone() override { delete this; }
};

class EchoService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    absl::string_view method = context->method();
    std::uint64_t bytes = 0;
    std::uint32_t work_us = 0;
    const bool is_stream = absl::ConsumePrefix(&method, "/echo-stream/");
    if (!is_stream && !absl::ConsumePrefix(&method, "/echo/")) return new NotFound;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(method, absl::MaxSplits('/', 1));
    const bool works = !parts.second.empty();
    if (!absl::SimpleAtoi(parts.first, &bytes) ||
        (works && (is_stream || !absl::SimpleAtoi(parts.second, &work_us)))) {
      return new NotFound;
    }
    if (is_stream) return new EchoStreamReactor(bytes);
    return new EchoReactor(bytes, works ? Worker() : nullptr, std::chrono::microseconds(work_us));
  }

 private:
  // Made when it is first needed, because it takes a core.
  BusyWorker* Worker() {
    const MutexLock lock(mutex_);
    if (worker_ == nullptr) worker_ = std::make_unique<BusyWorker>();
    return worker_.get();
  }

  Mutex mutex_;
  std::unique_ptr<BusyWorker> worker_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

struct EchoServer::State {
  EchoService service;
  std::unique_ptr<grpc::Server> server;
};

EchoServer::EchoServer(const std::optional<CertifiedKey>& tls) : state_(std::make_unique<State>()) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", Credentials(tls), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterCallbackGenericService(&state_->service);
  state_->server = builder.BuildAndStart();
  if (state_->server != nullptr && port != 0) address_ = absl::StrCat("127.0.0.1:", port);
}

EchoServer::~EchoServer() {
  // A deadline in the past: whoever is still connected is cut off.
  if (state_->server != nullptr) state_->server->Shutdown(std::chrono::system_clock::now());
}

}  // namespace gemmd::load
