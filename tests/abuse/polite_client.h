// The client whom the attacks of this folder are to do no harm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gemmd/v1/gemm.grpc.pb.h"

namespace gemmd::testing {

// Each of its requests is to be answered, or refused with a time to come back. It has a connection
// of its own and gRPC's defaults, with which a call that the server never read is sent again: gRPC
// itself ends connections without a call, where the server's memory is short.
class PoliteClient {
 public:
  explicit PoliteClient(const std::string& server);

  // A product of 16 cubed.
  void Multiply();

  int answered = 0;
  int told_to_wait = 0;
  std::vector<std::string> errors;  // of all other requests

 private:
  const std::unique_ptr<v1::Gemm::Stub> gemm_;
};

}  // namespace gemmd::testing
