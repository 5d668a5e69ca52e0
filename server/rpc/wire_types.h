// Converts between the wire's enums and ours. An enum from the wire gives nothing for unspecified
// or unknown values, which the caller refuses by field.
#pragma once

#include <optional>

#include "gemmd/v1/admin.pb.h"
#include "gemmd/v1/gemm.pb.h"
#include "kernels/gemm.h"
#include "server/admission/matmul_call.h"
#include "server/observe/receipt.h"

namespace gemmd {

std::optional<DataType> FromWire(v1::DataType type);
std::optional<Order> FromWire(v1::Order order);
std::optional<Activation> FromWire(v1::Activation activation);
std::optional<Determinism> FromWire(v1::Determinism determinism);
std::optional<Priority> FromWire(v1::Priority priority);
std::optional<OperandName> FromWire(v1::OperandName operand);
std::optional<PlaneName> FromWire(v1::PlaneName plane);

v1::DataType ToWire(DataType type);
v1::Order ToWire(Order order);
v1::Determinism ToWire(Determinism determinism);
v1::PlaneName ToWire(PlaneName plane);
v1::StageName ToWire(Stage stage);

}  // namespace gemmd
