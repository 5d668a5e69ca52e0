#include "client/wire/wire_types.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/time/units.h"

namespace gemmd::client {

absl::StatusOr<DataType> FromWire(v1::DataType type) {
  if (const std::optional<DataType> ours = gemmd::FromWire(type)) return *ours;
  return absl::InternalError(
      absl::StrCat("the response has data type ", static_cast<int>(type), ", unknown here"));
}

absl::StatusOr<Order> FromWire(v1::Order order) {
  if (const std::optional<Order> ours = gemmd::FromWire(order)) return *ours;
  return absl::InternalError(
      absl::StrCat("the response has order ", static_cast<int>(order), ", unknown here"));
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* wire) {
  const std::int64_t nanoseconds = absl::ToInt64Nanoseconds(duration);
  wire->set_seconds(nanoseconds / kSecond);
  wire->set_nanos(static_cast<std::int32_t>(nanoseconds % kSecond));
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
