#include "client/operand_source.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/wire_types.h"
#include "digest/operand_digest.h"

namespace gemmd::client {
namespace {

absl::Status CheckTight(const Matrix& matrix) {
  if (matrix.format().stride() == matrix.format().inner()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToString(matrix.format()), ": an uploaded matrix is tightly packed"));
}

DigestPlane Hash(v1::PlaneName name, const Matrix& matrix) {
  const MatrixFormat& format = matrix.format();
  return {static_cast<std::uint32_t>(name),
          format.type,
          format.rows,
          format.columns,
          format.order,
          matrix.bytes().size(),
          ChunkDigests(matrix.bytes(), static_cast<int>(std::thread::hardware_concurrency()))};
}

}  // namespace

absl::StatusOr<OperandSource> OperandSource::Create(Matrix data, std::optional<Matrix> scales) {
  if (absl::Status status = CheckTight(data); !status.ok()) return status;
  std::vector<DigestPlane> planes = {Hash(v1::DATA, data)};
  if (scales) {
    if (absl::Status status = CheckTight(*scales); !status.ok()) return status;
    planes.push_back(Hash(v1::SCALES, *scales));
  }
  std::string digest = ToBytes(OperandDigest(data.format().type, planes));
  return OperandSource(std::make_shared<const Content>(
      Content{std::move(data), std::move(scales), std::move(digest)}));
}

std::uint64_t OperandSource::size_bytes() const {
  return data().bytes().size() + (scales() ? scales()->bytes().size() : 0);
}

const Matrix* OperandSource::plane(v1::PlaneName name) const {
  if (name == v1::DATA) return &data();
  return name == v1::SCALES && scales() ? &*scales() : nullptr;
}

v1::Operand OperandSource::Describe() const {
  v1::Operand operand;
  SetPlane(data().format(), operand.mutable_data());
  if (scales()) SetPlane(scales()->format(), operand.mutable_scales());
  return operand;
}

}  // namespace gemmd::client
