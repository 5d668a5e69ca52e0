// One call over bytes whose caller waits, streaming or not: what operand_link.h is made of,
// private to it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/retry.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace gemmd::client {

// The header that says which operand a call is about, for proxies that spread calls by it.
inline constexpr char kAffinityHeader[] = "gemmd-affinity";

// Its value: the digest in hexadecimal; empty where there is none.
std::string AffinityOf(absl::string_view digest);

// The result of a call: its status and the server's advice on retries.
struct CallEnd {
  absl::Status status;
  Pushback pushback;
  bool was_cancelled = false;  // by the server's gRPC, or by a proxy: UNAVAILABLE, as status.h says
};

// Used by one thread. Waits at most until the deadline.
class BlockingCall {
 public:
  // `method` as "/package.Service/Method"; `affinity` is the header's value, if it is to have one.
  BlockingCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
               absl::Time deadline, const std::string& affinity = "");
  // Cancels what has not ended.
  ~BlockingCall();
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

  // False: the call has ended, and Finish() says how.
  bool Write(const grpc::ByteBuffer& message);
  void WritesDone();
  // Returns the next message; nothing where none comes any more.
  std::optional<grpc::ByteBuffer> Read();
  // REQUIRES: called once, last.
  CallEnd Finish();

 private:
  // Waits for the operation that was started.
  bool Wait();

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool has_ended_ = false;
};

}  // namespace gemmd::client
