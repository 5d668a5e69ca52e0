// An operand of a product is a matrix that goes along with the request, one that stays on the
// server, or one in memory that client and server share. Values; no gRPC.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/bytes.h"
#include "client/matrix.h"
#include "client/operand_source.h"
#include "gemmd/v1/matrix.pb.h"

namespace gemmd::client {

// A matrix that goes along with the request.
//
// Scales are of f32, for int8 and fp8 operands, whose values are what is stored times its scale:
// 1 x 1, or M x 1 of A (one for each row of op(A)) and 1 x N of B (for each column of op(B)).
struct InlineOperand {
  // A matrix is an operand without further words.
  InlineOperand(Matrix matrix, std::optional<Matrix> its_scales = std::nullopt)  // NOLINT
      : data(std::move(matrix)), scales(std::move(its_scales)) {}

  Matrix data;
  std::optional<Matrix> scales;
};

// One that is on the server, by name: nothing brings it back should it be lost.
struct OperandName {
  std::string handle;  // one of both
  std::string digest;  // 32 bytes
  // The matrix's format, if the caller knows it. D's shape is then checked against it.
  std::optional<MatrixFormat> format = std::nullopt;
};

// "a1b2c3d4-7" is a handle, 64 hexadecimal digits are a digest.
OperandName ParseOperandName(absl::string_view text);

// The bytes of shared memory from an offset on; SharedRegion::Place() makes one.
struct SharedPlace {
  v1::SharedMemory memory;  // as the server finds it
  Bytes bytes;              // up to the region's end; keeps the region
};

struct SharedOperand {
  SharedPlace place;
  MatrixFormat data;
  // As InlineOperand has them: right behind the last element of the data.
  std::optional<MatrixFormat> scales = std::nullopt;
};

// An OperandSource stays on the server, and is uploaded where the server does not have it.
using Operand = std::variant<InlineOperand, OperandSource, OperandName, SharedOperand>;

// Its format; null where only the server knows.
const MatrixFormat* FormatOf(const Operand& operand);

// How long a matrix on the server is safe from eviction after each use; absent: the server's
// default.
using Lease = std::optional<absl::Duration>;

}  // namespace gemmd::client
