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

void SetPlane(const MatrixFormat& format, v1::Plane* plane) {
  plane->set_type(ToWire(format.type));
  plane->set_rows(format.rows);
  plane->set_columns(format.columns);
  plane->set_order(ToWire(format.order));
  plane->set_leading_dimension(format.leading_dimension);
}

absl::StatusOr<MatrixFormat> FormatOf(const v1::Plane& plane) {
  MatrixFormat format;
  const absl::StatusOr<DataType> type = FromWire(plane.type());
  if (!type.ok()) return type.status();
  const absl::StatusOr<Order> order = FromWire(plane.order());
  if (!order.ok()) return order.status();
  format.type = *type;
  format.order = *order;
  format.rows = plane.rows();
  format.columns = plane.columns();
  format.leading_dimension = plane.leading_dimension();
  return format;
}

}  // namespace gemmd::client
