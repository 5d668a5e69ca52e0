// From the values of matmul.h to those that travel: a header and planes. No gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "client/bytes.h"
#include "client/matmul.h"
#include "client/matrix.h"
#include "gemmd/v1/gemm.pb.h"

namespace gemmd::client {

// What the result must be, as far as the request says.
struct ExpectedResult {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::optional<DataType> type;
  Order order = Order::kRowMajor;
  std::uint64_t leading_dimension = 0;  // 0: tightly packed
  // Where the server writes D, in memory that both share: none of it comes with the answer.
  std::optional<Bytes> shared = std::nullopt;

  // More than any type's result takes, its last line's padding included; saturates.
  std::uint64_t max_bytes() const;
};

// The bytes of one plane of one operand, where the caller's matrix has them.
struct PlaneBytes {
  v1::OperandName operand = v1::OPERAND_UNSPECIFIED;
  v1::PlaneName plane = v1::DATA;
  Bytes bytes;
};

// A request that can be sent, in one message or in many, and again.
struct EncodedMatmul {
  v1::MatmulHeader header;
  std::vector<PlaneBytes> planes;
  std::uint64_t payload_bytes = 0;  // of all planes
  ExpectedResult expected;
};

// Of the product of such A and B.
ExpectedResult Expect(const MatrixFormat& a, const MatrixFormat& b, const MatmulOptions& options);

// Consumes the inputs; copies none of their bytes.
std::shared_ptr<const EncodedMatmul> Encode(MatmulInputs inputs, const MatmulOptions& options);

}  // namespace gemmd::client
