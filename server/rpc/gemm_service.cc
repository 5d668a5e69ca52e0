#include "server/rpc/gemm_service.h"

#include "server/rpc/matmul_reactor.h"
#include "server/rpc/unary.h"

namespace gemmd {

grpc::ServerUnaryReactor* GemmService::Matmul(grpc::CallbackServerContext* context,
                                              const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) {
  return new MatmulReactor(admission_, statistics_, clock_, &active_calls_, context, request,
                           response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GemmService::MatmulStream(
    grpc::CallbackServerContext*) {
  return RefuseStream<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>(
      "Gemm.MatmulStream");
}

grpc::ServerUnaryReactor* GemmService::Estimate(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer*, grpc::ByteBuffer*) {
  return RefuseUnary(context, "Gemm.Estimate");
}

}  // namespace gemmd
