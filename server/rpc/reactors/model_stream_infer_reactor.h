// One ModelStreamInfer: many products in flight on a stream, each answered when it is done.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "server/rpc/oip/infer_decoder.h"
#include "server/rpc/oip/infer_request.h"
#include "server/rpc/reactors/session_reactor.h"

namespace gemmd {

// Its requests are those of a session that has this stream alone, so that what a stream may have in
// flight, and how slow its client may be, is as for MatmulStream. A message is a whole request: the
// next one is read when its payload was copied.
class ModelStreamInferReactor final : public SessionReactor {
 public:
  // Starts at once; lives until gRPC is done with it. The services and the decoder's parts outlive
  // it.
  static ModelStreamInferReactor* Start(const Services& services, const InferDecoder& decoder,
                                        const Login& login, grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;

 private:
  // A message and what its payload lies in.
  struct Message;
  // A request in flight, or whose answer was not sent.
  struct Asked {
    InferAnswer answer;
    std::string model;  // "": unknown, and nothing is counted of it
    TimeNs arrival = 0;
  };

  ModelStreamInferReactor(const Services& services, const InferDecoder& decoder, const Login& login,
                          grpc::CallbackServerContext* context)
      : SessionReactor(services, login, context), decoder_(decoder) {}

  absl::Status Begin(const inference::ModelInferRequest& request,
                     const std::shared_ptr<Message>& message);
  grpc::ByteBuffer Encode(const std::vector<Outgoing>& message) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoomLocked() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return true; }

  const InferDecoder& decoder_;
  std::uint64_t next_id_ = 1;  // of the session's requests
  std::map<std::uint64_t, Asked> asked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
