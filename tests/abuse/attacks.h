// The attacks that the tests of this folder try one by one, each to be repeated for as long as one
// likes, and the client that they are to do no harm to.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd::testing {

// Who attacks, from one address. It waits for 2 s at most.
class Abuser {
 public:
  Abuser(std::string server, std::string source);

  std::unique_ptr<RawConnection> Connect() const;
  // With a small buffer, and windows that let the server send as much as it likes.
  std::unique_ptr<RawConnection> ConnectUnread() const;

 private:
  const std::string server_;
  RawConnection::Options options_;
};

struct Attack {
  const char* name;
  void (*once)(const Abuser& abuser);
};
const std::vector<Attack>& AllAttacks();

// A client each of whose requests is to be answered, or refused with a time to come back.
class PoliteClient {
 public:
  explicit PoliteClient(const std::shared_ptr<grpc::Channel>& channel);

  // A product of 16 cubed.
  void Multiply();

  int answered = 0;
  int told_to_wait = 0;
  std::vector<std::string> errors;  // of all other requests

 private:
  const std::unique_ptr<v1::Gemm::Stub> gemm_;
};

}  // namespace gemmd::testing
