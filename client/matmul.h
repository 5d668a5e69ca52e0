// The inputs, options and results of a product: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/numbers/types.h"
#include "client/matrix.h"
#include "client/operand.h"
#include "client/route.h"
#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/receipt.pb.h"

namespace gemmd::client {

// D = activation(alpha * op(A) * op(B) + beta * C + bias), as gemm.proto defines each
// field. The server checks what is not checked here.
struct MatmulInputs {
  Operand a;
  Operand b;
  std::optional<Operand> c = std::nullopt;     // needed where beta is not 0
  std::optional<Operand> bias = std::nullopt;  // 1 x N
};

// D comes with the answer; or it stays on the server, tightly packed; or the server writes it into
// shared memory. There D may be exactly C, in C's layout, but no other operand.
struct SendResult {};
struct KeepResult {
  Lease lease;
};
using Destination = std::variant<SendResult, KeepResult, SharedPlace>;

// Many products of one shape in one request, as gemm.proto's StridedBatch has them: an operand is a
// stack, of which product k takes matrix k. Strides are elements. All products take the one matrix
// of an operand of stride 0, which may stay on the server. A Matrix that goes along is made of the
// Stack that the stride and the count say; its scales and their like are of the one matrix, or a
// stack of their own, tightly packed.
struct Batch {
  std::uint64_t count = 1;
  std::uint64_t a_stride = 0;
  std::uint64_t b_stride = 0;
  std::uint64_t c_stride = 0;
  std::uint64_t bias_stride = 0;
  std::uint64_t output_stride = 0;  // of a D in shared memory; 0: results follow each other
  // Not empty: groups of rows, `count` of them, by matrices of B of their own. Product g has the
  // rows of op(A), C and D from where the one before it ends on to row_ends[g], perhaps none; the
  // last is M. A, C and D are one matrix each then, and their strides are 0.
  std::vector<std::uint64_t> row_ends = {};
};

struct MatmulOptions {
  // A server that is older than batches gives one product; the client finds that, and the request
  // ends with UNIMPLEMENTED.
  std::optional<Batch> batch;
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
  Destination destination = SendResult();
};

// Times that only the client can measure. The wire's part is the last attempt's round trip less the
// server's total: both networks' stacks, gRPC, and protobuf on both ends.
struct ClientTimes {
  int attempts = 1;
  int refills = 0;  // uploads of operands that the server did not have, each before an attempt
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
  Route route;          // of the last attempt
  std::string address;  // the server's, where the client knows several; else empty
};

struct Product {
  MatrixFormat format;      // of D; of a batch, of each of them
  std::optional<Matrix> d;  // absent where it stays on the server; shared memory is that itself. A
                            // batch's is a stack
  std::string handle;       // of one that stays
  Receipt receipt;
};

}  // namespace gemmd::client
