// An operand of a product is a matrix that goes along with the request, one that stays on the
// server, or one in memory that client and server share. Values; no gRPC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/bytes.h"
#include "client/matrix.h"
#include "client/wire/inline_operand.h"
#include "client/wire/operand_source.h"
#include "gemmd/v1/matrix.pb.h"

namespace gemmd::client {

// One that is on the server, by what it is called there: nothing brings it back should it be lost.
struct OperandName {
  std::string handle;  // one of the three: this one,
  std::string digest;  // 32 bytes
  // The matrix's format, if the caller knows it. D's shape is then checked against it.
  std::optional<MatrixFormat> format = std::nullopt;
  std::string name = {};  // or the name that its tenant gave it
};

// "a1b2c3d4-7" is a handle, 64 hexadecimal digits are a digest, all else is a name.
OperandName ParseOperandName(absl::string_view text);

// Writes it into a message with `oneof { handle, digest, name }`.
template <typename Message>
void SetName(const OperandName& operand, Message* message) {
  if (!operand.name.empty()) {
    message->set_name(operand.name);
  } else if (!operand.digest.empty()) {
    message->set_digest(operand.digest);
  } else {
    message->set_handle(operand.handle);
  }
}

// The bytes of shared memory from an offset on; SharedRegion::Place() makes one.
struct SharedPlace {
  v1::SharedMemory memory;  // as the server finds it
  Bytes bytes;              // up to the region's end; keeps the region
};

struct SharedOperand {
  SharedPlace place;
  MatrixFormat data;
  // The planes that InlineOperand has lie one after another, right behind the data's last byte.
  std::optional<MatrixFormat> scales = std::nullopt;
  std::optional<MatrixFormat> zero_points = std::nullopt;
  std::optional<MatrixFormat> tensor_scale = std::nullopt;
  std::optional<MatrixFormat> offsets = std::nullopt;
  std::optional<BlockScaling> blocks = std::nullopt;
};

// Matrices of a stack on the server: of one format, one behind the other, so that the stack's rows
// (of a column-major one its columns) are a multiple of theirs. A product takes one, products of a
// batch whose stride is not 0 this one and those that follow.
struct StackedOperand {
  std::variant<OperandSource, OperandName> stack;
  MatrixFormat matrix;      // of each of them
  std::uint64_t index = 0;  // of this one
};

// An OperandSource stays on the server, and is uploaded where the server does not have it.
using Operand =
    std::variant<InlineOperand, OperandSource, OperandName, SharedOperand, StackedOperand>;

// Its format; null where only the server knows.
const MatrixFormat* FormatOf(const Operand& operand);

// The time that a matrix on the server is safe from eviction after each use; absent: the server's
// default.
using Lease = std::optional<absl::Duration>;

}  // namespace gemmd::client
