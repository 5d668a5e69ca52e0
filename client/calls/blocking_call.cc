#include "client/calls/blocking_call.h"

#include "absl/strings/escaping.h"
#include "client/status.h"

namespace gemmd::client {
namespace {

Pushback PushbackIn(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find(grpc::string_ref(kPushbackKey.data(), kPushbackKey.size()));
  if (found == metadata.end()) return ParsePushback(std::nullopt);
  return ParsePushback(absl::string_view(found->second.data(), found->second.size()));
}

}  // namespace

std::string AffinityOf(absl::string_view digest) { return absl::BytesToHexString(digest); }

BlockingCall::BlockingCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                           absl::Time deadline, const std::string& affinity)
    : stub_(channel) {
  if (!affinity.empty()) context_.AddMetadata(kAffinityHeader, affinity);
  if (deadline != absl::InfiniteFuture()) context_.set_deadline(absl::ToChronoTime(deadline));
  call_ = stub_.PrepareCall(&context_, method, &queue_);
  call_->StartCall(this);
  Wait();
}

BlockingCall::~BlockingCall() {
  if (!has_ended_) {
    context_.TryCancel();
    Finish();
  }
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool BlockingCall::Wait() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

bool BlockingCall::Write(const grpc::ByteBuffer& message) {
  call_->Write(message, this);
  return Wait();
}

void BlockingCall::WritesDone() {
  call_->WritesDone(this);
  Wait();
}

std::optional<grpc::ByteBuffer> BlockingCall::Read() {
  grpc::ByteBuffer message;
  call_->Read(&message, this);
  if (!Wait()) return std::nullopt;
  return message;
}

CallEnd BlockingCall::Finish() {
  grpc::Status status;
  call_->Finish(&status, this);
  Wait();
  has_ended_ = true;
  CallEnd end;
  end.status = FromGrpc(status);
  end.pushback = PushbackIn(context_);
  end.was_cancelled = status.error_code() == grpc::StatusCode::CANCELLED;
  return end;
}

}  // namespace gemmd::client
