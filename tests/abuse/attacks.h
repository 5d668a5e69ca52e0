// The attacks that the tests of this folder try one by one, each to be repeated for as long as one
// likes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "inference/grpc_service.pb.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd::testing {

// The methods that multiply.
inline constexpr char kMatmul[] = "/gemmd.v1.Gemm/Matmul";
inline constexpr char kMatmulStream[] = "/gemmd.v1.Gemm/MatmulStream";
inline constexpr char kModelInfer[] = "/inference.GRPCInferenceService/ModelInfer";
inline constexpr char kModelStreamInfer[] = "/inference.GRPCInferenceService/ModelStreamInfer";
inline constexpr const char* kUnaryProducts[] = {kMatmul, kModelInfer};
inline constexpr const char* kStreamedProducts[] = {kMatmulStream, kModelStreamInfer};
inline constexpr const char* kAllProducts[] = {kMatmul, kModelInfer, kMatmulStream,
                                               kModelStreamInfer};

// A message of one of these methods that asks for the product of a column and a row: n * n f32
// results of 2 * n elements.
std::string OuterProduct(const std::string& method, std::uint64_t n);
inference::ModelInferRequest OuterInfer(std::uint64_t n);

// An attacker at one address. It waits for 2 s at most.
class Abuser {
 public:
  Abuser(std::string server, std::string source);

  std::unique_ptr<RawConnection> Connect() const;
  // The connection has a small buffer, and windows that let the server send as much as it likes.
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

}  // namespace gemmd::testing
