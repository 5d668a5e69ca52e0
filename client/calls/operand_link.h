// The calls about operands that a server keeps, with their retries: what Operands and the products
// of a Client share, private to them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/calls/blocking_call.h"
#include "client/calls/operand_transfer.h"
#include "client/calls/timer.h"
#include "client/channel.h"
#include "client/operand.h"
#include "client/retry.h"
#include "gemmd/v1/operands.pb.h"
#include "grpcpp/channel.h"

namespace gemmd::client {

// Thread-safe. Every method waits for the server, and so must not run in a callback.
struct OperandLink {
  RetryPolicy retry;
  std::shared_ptr<Timer> timer;
  std::shared_ptr<grpc::Channel> channel;
  // Channels with connections of their own: parts of large uploads go over them beside `channel`.
  std::vector<std::shared_ptr<grpc::Channel>> more_channels;
  bool affinity_header = false;
  // Another server is asked after UNAVAILABLE, and not this one again.
  bool is_one_of_several = false;

  // `method` as "Service/Method" of gemmd.v1; `digest` of the operand that it is about, if it has
  // one.
  BlockingCall Call(const char* method, absl::Time deadline, absl::string_view digest = {}) const;

  // Waits before the next attempt; false: there is to be none.
  bool WaitAfter(const CallEnd& end, Retries* retries) const;
  // Waits that long; gRPC goes on with the connection meanwhile.
  void Wait(absl::Duration delay) const;

  // One request and one answer, tried again where that helps.
  template <typename Response>
  absl::StatusOr<Response> Unary(const char* method, const google::protobuf::Message& request,
                                 absl::Time deadline, absl::string_view digest = {}) const {
    grpc::ByteBuffer answer;
    if (absl::Status status = Exchange(method, Serialize(request), deadline, digest, &answer);
        !status.ok()) {
      return status;
    }
    Response response;
    if (absl::Status status = Parse(answer, &response); !status.ok()) return status;
    return response;
  }

  // Uploads what the server lacks of it, over several connections where that is much. A broken
  // upload goes on where it ended; one whose parts met different servers begins anew, over one.
  absl::StatusOr<v1::ResidentOperand> Put(const OperandSource& source, const Lease& lease,
                                          absl::Time deadline,
                                          const UploadProgress& sent = {}) const;
  // Uploads all of it, to be kept in another form. The server cannot tell what it has of such an
  // upload, so a broken one begins anew, over one connection.
  absl::StatusOr<v1::UploadResponse> PutAs(const OperandSource& source,
                                           const v1::Operand& stored_form, const Lease& lease,
                                           absl::Time deadline,
                                           const UploadProgress& sent = {}) const;

 private:
  absl::Status Exchange(const char* method, const grpc::ByteBuffer& request, absl::Time deadline,
                        absl::string_view digest, grpc::ByteBuffer* answer) const;
  absl::StatusOr<std::vector<v1::ByteRange>> MissingOf(const OperandSource& source,
                                                       absl::Time deadline) const;
  bool HasBegun(const OperandSource& source, absl::Time deadline) const;
  CallEnd Upload(const v1::UploadRequest::Begin& begin, const OperandSource& source,
                 const std::vector<v1::ByteRange>& ranges, std::size_t streams, absl::Time deadline,
                 const UploadProgress& sent, v1::UploadResponse* response) const;
};

// Channels for OperandLink::more_channels; they connect when they are used.
std::vector<std::shared_ptr<grpc::Channel>> UploadChannels(const ChannelOptions& options);

}  // namespace gemmd::client
