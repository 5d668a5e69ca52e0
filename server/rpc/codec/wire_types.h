// The wire's enums that the server alone knows as its own; proto/wire_types.h has the others, and
// their rule.
#pragma once

#include <optional>

#include "gemmd/v1/admin.pb.h"
#include "gemmd/v1/gemm.pb.h"
#include "proto/wire_types.h"  // IWYU pragma: export
#include "server/admission/matmul_call.h"
#include "server/observe/receipt.h"

namespace gemmd {

std::optional<Priority> FromWire(v1::Priority priority);
std::optional<OperandName> FromWire(v1::OperandName operand);
std::optional<PlaneName> FromWire(v1::PlaneName plane);

v1::PlaneName ToWire(PlaneName plane);
v1::StageName ToWire(Stage stage);

}  // namespace gemmd
