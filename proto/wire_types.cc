#include "proto/wire_types.h"

namespace gemmd {

std::optional<DataType> FromWire(v1::DataType type) {
  for (const DataTypeTraits& each : kDataTypes) {
    if (ToWire(each.type) == type) return each.type;
  }
  return std::nullopt;
}

v1::DataType ToWire(DataType type) {
#define GEMMD_WIRE_TYPE(type, wire, name, bits, role) v1::wire,
  static constexpr v1::DataType kWire[] = {GEMMD_DATA_TYPES(GEMMD_WIRE_TYPE)};
#undef GEMMD_WIRE_TYPE
  return kWire[static_cast<std::size_t>(type)];
}

std::optional<Order> FromWire(v1::Order order) {
  if (order == v1::ROW_MAJOR) return Order::kRowMajor;
  if (order == v1::COLUMN_MAJOR) return Order::kColumnMajor;
  return std::nullopt;
}

v1::Order ToWire(Order order) {
  return order == Order::kRowMajor ? v1::ROW_MAJOR : v1::COLUMN_MAJOR;
}

std::optional<Activation> FromWire(v1::Activation activation) {
  for (const Activation each :
       {Activation::kNone, Activation::kRelu, Activation::kGeluTanh, Activation::kSilu}) {
    if (ToWire(each) == activation) return each;
  }
  return std::nullopt;
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

std::optional<Determinism> FromWire(v1::Determinism determinism) {
  if (determinism == v1::BATCH_INVARIANT) return Determinism::kBatchInvariant;
  if (determinism == v1::FAST) return Determinism::kFast;
  return std::nullopt;
}

v1::Determinism ToWire(Determinism determinism) {
  return determinism == Determinism::kFast ? v1::FAST : v1::BATCH_INVARIANT;
}

}  // namespace gemmd
