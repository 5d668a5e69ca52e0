#include "client/wire_types.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemmd::client {

v1::DataType ToWire(DataType type) {
  switch (type) {
    case DataType::kF64:
      return v1::F64;
    case DataType::kF32:
      return v1::F32;
    case DataType::kTf32:
      return v1::TF32;
    case DataType::kF16:
      return v1::F16;
    case DataType::kBf16:
      return v1::BF16;
    case DataType::kInt8:
      return v1::INT8;
    case DataType::kInt32:
      return v1::INT32;
    case DataType::kFp8E4M3:
      return v1::FP8_E4M3;
    case DataType::kFp8E5M2:
      return v1::FP8_E5M2;
    case DataType::kMxfp8E4M3:
      return v1::MXFP8_E4M3;
    case DataType::kInt4:
      return v1::INT4;
    case DataType::kE8M0:
      return v1::E8M0;
    case DataType::kUint8:
      return v1::UINT8;
    case DataType::kUint4:
      return v1::UINT4;
    case DataType::kFp6E3M2:
      return v1::FP6_E3M2;
    case DataType::kFp6E2M3:
      return v1::FP6_E2M3;
    case DataType::kFp4E2M1:
      return v1::FP4_E2M1;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

v1::Order ToWire(Order order) {
  return order == Order::kRowMajor ? v1::ROW_MAJOR : v1::COLUMN_MAJOR;
}

v1::Activation ToWire(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return v1::NONE;
    case Activation::kRelu:
      return v1::RELU;
    case Activation::kGeluTanh:
      return v1::GELU_TANH;
    case Activation::kSilu:
      return v1::SILU;
  }
  return v1::NONE;
}

v1::Determinism ToWire(Determinism determinism) {
  return determinism == Determinism::kFast ? v1::FAST : v1::BATCH_INVARIANT;
}

absl::StatusOr<DataType> FromWire(v1::DataType type) {
  for (int i = 0; i <= static_cast<int>(DataType::kFp4E2M1); ++i) {
    if (ToWire(static_cast<DataType>(i)) == type) return static_cast<DataType>(i);
  }
  return absl::InternalError(
      absl::StrCat("the response has data type ", static_cast<int>(type), ", unknown here"));
}

absl::StatusOr<Order> FromWire(v1::Order order) {
  if (order == v1::ROW_MAJOR) return Order::kRowMajor;
  if (order == v1::COLUMN_MAJOR) return Order::kColumnMajor;
  return absl::InternalError(
      absl::StrCat("the response has order ", static_cast<int>(order), ", unknown here"));
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* wire) {
  const std::int64_t nanoseconds = absl::ToInt64Nanoseconds(duration);
  constexpr std::int64_t kSecond = 1000000000;
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
