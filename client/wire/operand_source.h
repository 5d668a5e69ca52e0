// A matrix that a server may be asked to keep, known by its digest.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/matrix.h"
#include "client/wire/inline_operand.h"
#include "gemmd/v1/matrix.pb.h"
#include "gemmd/v1/operands.pb.h"

namespace gemmd::client {

// A value that shares its bytes: cheap to copy. Holding it is what makes a lost operand come
// back: a server that has been restarted gets it again.
class OperandSource {
 public:
  // Hashes the bytes, with all cores where they are many. INVALID_ARGUMENT: a matrix is not tightly
  // packed.
  static absl::StatusOr<OperandSource> Create(InlineOperand operand);
  static absl::StatusOr<OperandSource> Create(Matrix data, std::optional<Matrix> scales) {
    return Create(InlineOperand(std::move(data), std::move(scales)));
  }

  const Matrix& data() const { return content_->operand.data; }
  // 32 bytes, as operands.proto defines it.
  const std::string& digest() const { return content_->digest; }
  std::uint64_t size_bytes() const { return content_->operand.size_bytes(); }
  // Null: it has no such plane.
  const Matrix* plane(v1::PlaneName name) const { return content_->operand.plane(name); }
  // Its planes as the wire describes them.
  v1::Operand Describe() const;
  // Keeps the bytes of all planes.
  std::shared_ptr<const void> owner() const { return content_; }

 private:
  struct Content {
    InlineOperand operand;
    std::string digest;
  };
  explicit OperandSource(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

  std::shared_ptr<const Content> content_;
};

}  // namespace gemmd::client
