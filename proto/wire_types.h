// Converts between the wire's enums and ours, for both ends. An enum from the wire gives nothing
// for unspecified or unknown values, which the caller refuses by field.
#pragma once

#include <optional>

#include "base/numbers/types.h"
#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/matrix.pb.h"

namespace gemmd {

std::optional<DataType> FromWire(v1::DataType type);
std::optional<Order> FromWire(v1::Order order);
std::optional<Activation> FromWire(v1::Activation activation);
std::optional<Determinism> FromWire(v1::Determinism determinism);

v1::DataType ToWire(DataType type);
v1::Order ToWire(Order order);
v1::Activation ToWire(Activation activation);
v1::Determinism ToWire(Determinism determinism);

}  // namespace gemmd
