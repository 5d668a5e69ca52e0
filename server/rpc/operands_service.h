// gemmd.v1.Operands. Thin: decode, call the store, encode.
#pragma once

#include "gemmd/v1/operands.grpc.pb.h"
#include "server/admission/validation.h"
#include "server/scheduling/router.h"
#include "server/store/operand_store.h"

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

  // All outlive the service. `chunk_bytes`: of downloads.
  OperandsService(OperandStore* store, const Router* router, const RequestLimits& limits,
                  std::uint64_t chunk_bytes)
      : store_(store), router_(router), limits_(limits), chunk_bytes_(chunk_bytes) {}

  grpc::ServerUnaryReactor* FindMissing(Context* context, const Bytes* request,
                                        Bytes* response) override;
  grpc::ServerReadReactor<Bytes>* Upload(Context* context, Bytes* response) override;
  grpc::ServerWriteReactor<Bytes>* Download(Context* context, const Bytes* request) override;
  grpc::ServerUnaryReactor* Get(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerUnaryReactor* List(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerUnaryReactor* Release(Context* context, const Bytes* request,
                                    Bytes* response) override;
  grpc::ServerUnaryReactor* Renew(Context* context, const Bytes* request, Bytes* response) override;

 private:
  OperandStore* const store_;
  const Router* const router_;
  const RequestLimits limits_;
  const std::uint64_t chunk_bytes_;
};

}  // namespace gemmd
