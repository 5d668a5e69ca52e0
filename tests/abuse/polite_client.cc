#include "tests/abuse/polite_client.h"

#include <chrono>

#include "grpcpp/grpcpp.h"
#include "tests/testing/wire.h"

namespace gemmd::testing {
namespace {

std::shared_ptr<grpc::Channel> NewChannel(const std::string& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

PoliteClient::PoliteClient(const std::string& server)
    : gemm_(v1::Gemm::NewStub(NewChannel(server))) {}

void PoliteClient::Multiply() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::MatmulResponse response;
  const grpc::Status status = gemm_->Matmul(&context, ZeroRequest(16), &response);
  if (status.ok()) {
    ++answered;
  } else if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
             context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms") != 0) {
    ++told_to_wait;
  } else {
    errors.push_back(status.error_message());
  }
}

}  // namespace gemmd::testing
