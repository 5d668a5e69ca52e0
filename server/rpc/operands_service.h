// gemmd.v1.Operands. Nothing of it is built yet: each method says so by name.
#pragma once

#include "gemmd/v1/operands.grpc.pb.h"
#include "server/rpc/unary.h"

namespace gemmd {

using RawOperandsService =
    v1::Operands::WithRawCallbackMethod_FindMissing<v1::Operands::WithRawCallbackMethod_Upload<
        v1::Operands::WithRawCallbackMethod_Download<v1::Operands::WithRawCallbackMethod_Get<
            v1::Operands::WithRawCallbackMethod_List<v1::Operands::WithRawCallbackMethod_Release<
                v1::Operands::WithRawCallbackMethod_Renew<v1::Operands::Service>>>>>>>;

class OperandsService final : public RawOperandsService {
 public:
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  grpc::ServerUnaryReactor* FindMissing(Context* context, const Bytes*, Bytes*) override {
    return RefuseUnary(context, "Operands.FindMissing");
  }
  grpc::ServerReadReactor<Bytes>* Upload(Context*, Bytes*) override {
    return RefuseStream<grpc::ServerReadReactor<Bytes>>("Operands.Upload");
  }
  grpc::ServerWriteReactor<Bytes>* Download(Context*, const Bytes*) override {
    return RefuseStream<grpc::ServerWriteReactor<Bytes>>("Operands.Download");
  }
  grpc::ServerUnaryReactor* Get(Context* context, const Bytes*, Bytes*) override {
    return RefuseUnary(context, "Operands.Get");
  }
  grpc::ServerUnaryReactor* List(Context* context, const Bytes*, Bytes*) override {
    return RefuseUnary(context, "Operands.List");
  }
  grpc::ServerUnaryReactor* Release(Context* context, const Bytes*, Bytes*) override {
    return RefuseUnary(context, "Operands.Release");
  }
  grpc::ServerUnaryReactor* Renew(Context* context, const Bytes*, Bytes*) override {
    return RefuseUnary(context, "Operands.Renew");
  }
};

}  // namespace gemmd
