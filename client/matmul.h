// What a product is asked with, and what comes back: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/matrix.h"
#include "client/route.h"
#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/receipt.pb.h"
#include "kernels/types.h"

namespace gemmd::client {

// D = activation(alpha * op(A) * op(B) + beta * C + bias), as gemm.proto defines each
// field. What is not checked here the server checks.
struct MatmulInputs {
  Matrix a;
  Matrix b;
  std::optional<Matrix> c = std::nullopt;     // needed where beta is not 0
  std::optional<Matrix> bias = std::nullopt;  // 1 x N
  // Of f32, for int8 and fp8 operands, whose values are what is stored times its scale:
  // 1 x 1, or M x 1 (one for each row of op(A)) and 1 x N (for each column of op(B)).
  std::optional<Matrix> a_scales = std::nullopt;
  std::optional<Matrix> b_scales = std::nullopt;
};

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;
  Activation activation = Activation::kNone;
  std::optional<DataType> output_type;  // gemm.proto has the rule unless given
  Order output_order = Order::kRowMajor;
  std::uint64_t output_leading_dimension = 0;  // 0: tightly packed
  std::optional<DataType> accumulate_type;     // the server's rule unless given
  Determinism determinism = Determinism::kBatchInvariant;
  std::string kernel;  // by name; empty lets the server choose
  v1::Priority priority = v1::PRIORITY_NORMAL;
  std::uint32_t verification_vectors = 0;  // of Freivalds' check; 0 is off
};

// What only the client can see. The wire's part is the last attempt's round trip less
// the server's total: both networks' stacks, gRPC, and protobuf on both ends.
struct ClientTimes {
  int attempts = 1;
  absl::Duration encode;
  absl::Duration waited;  // between attempts
  absl::Duration round_trip;
  absl::Duration wire;
  absl::Duration decode;  // after the last byte came; a stream's chunks are placed before
  absl::Duration total;
};

struct Receipt {
  v1::Receipt server;
  ClientTimes client;
  Route route;  // of the last attempt
};

struct Product {
  Matrix d;
  Receipt receipt;
};

}  // namespace gemmd::client
