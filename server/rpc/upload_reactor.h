// One stream of Upload, from its Begin to its answer.
#pragma once

#include <memory>

#include "grpcpp/grpcpp.h"
#include "server/admission/validation.h"
#include "server/scheduling/router.h"
#include "server/store/operand_store.h"

namespace gemmd {

class UploadReactor final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  // Starts at once; deletes itself when gRPC is done with it. The arguments outlive it.
  UploadReactor(OperandStore* store, const Router* router, const RequestLimits& limits,
                grpc::CallbackServerContext* context, grpc::ByteBuffer* response);

  void OnReadDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  ~UploadReactor() override = default;

  // Takes one message. OK, and session_->resident(): nothing more is needed.
  absl::Status Handle(const grpc::ByteBuffer& bytes);
  void Answer(absl::Status status);

  OperandStore* const store_;
  const Router* const router_;
  const RequestLimits limits_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  Tenant tenant_;
  grpc::ByteBuffer incoming_;                       // of the read under way
  std::unique_ptr<OperandStore::Session> session_;  // null before Begin
};

}  // namespace gemmd
