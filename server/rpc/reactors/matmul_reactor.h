// One unary Matmul, from its bytes to its answer.
#pragma once

#include <memory>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "server/rpc/reactors/product_reactor.h"

namespace gemmd {

class MatmulReactor final : public ProductReactor {
 public:
  // Starts at once; deletes itself when gRPC is done with it. The services outlive it.
  MatmulReactor(const Services& services, Tenant tenant, grpc::CallbackServerContext* context)
      : ProductReactor(services, std::move(tenant), context) {}

 private:
  class Message;
  ~MatmulReactor() override = default;

  absl::StatusOr<std::unique_ptr<Received>> Decode(const grpc::ByteBuffer& message,
                                                   TimeNs arrival) override;
  grpc::ByteBuffer Encode(const MatmulOutcome& outcome) override;
};

}  // namespace gemmd
