// Encodes the values of matmul.h as those that travel: a header and planes. No gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/bytes.h"
#include "client/matmul.h"
#include "client/matrix.h"
#include "client/operand.h"
#include "gemmd/v1/gemm.pb.h"

namespace gemmd::client {

// Memory of a caller's own for a result of that format, which one attempt has received the
// description of; nothing: the result goes to memory of its own. Called by any thread.
using ResultMemory =
    std::function<absl::StatusOr<std::optional<Buffer>>(const MatrixFormat& format)>;

// The type and size of the result, as far as the request determines them.
struct ExpectedResult {
  // Absent where the server alone knows an operand's shape.
  std::optional<std::uint64_t> rows;
  std::optional<std::uint64_t> columns;
  std::optional<DataType> type;
  Order order = Order::kRowMajor;
  std::uint64_t leading_dimension = 0;  // 0: tightly packed
  std::uint64_t products = 0;           // of a batch; 0: there is none, and one product
  bool has_groups = false;              // the batch's products share out the rows of one D
  std::uint64_t stride = 0;             // of a batch's results; 0: they follow each other
  bool stays = false;                   // on the server: a handle comes instead of D
  // The memory, shared with the server, that D is written to: none of it comes with the answer.
  std::optional<Bytes> shared = std::nullopt;
  // The memory that D goes to as it comes; empty: memory of its own.
  ResultMemory into = {};

  bool comes_along() const { return !stays && !shared.has_value(); }
  // The results of a batch, or the one, in that layout, as the request says it.
  Stack StackOf(const MatrixFormat& format) const;
  // An upper bound of the result's bytes, its last line's padding included. It saturates, and is
  // the largest number where the shape is not known.
  std::uint64_t max_bytes() const;
  // An upper bound of the answer's payload, by which the route is chosen. It is 0 where the shape
  // is not known.
  std::uint64_t answer_bytes() const;
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
  std::vector<OperandSource> sources;  // what it names and this side can bring again
  absl::Status fault;                  // why it must not be sent
  // D overwrites the C that it depends on: no attempt follows one that may have been computed.
  bool is_in_place = false;
};

// Consumes the inputs; copies none of their bytes. Shared operands are read while a product is
// under way, not here. INVALID_ARGUMENT is its fault where the server would write D into memory
// that an operand is sent from, and where an operand's bytes are not those of its stack.
std::shared_ptr<const EncodedMatmul> Encode(MatmulInputs inputs, const MatmulOptions& options);

}  // namespace gemmd::client
