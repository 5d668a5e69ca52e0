// The protocols that carry a workload's products, and what each of them can say.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/load/workload.h"

namespace gemmd::load {

enum class Protocol {
  kGemmd,  // gemmd.v1.Gemm: Matmul and MatmulStream
  kOip,    // the Open Inference Protocol: ModelInfer and ModelStreamInfer
};

// "gemmd" or "oip".
absl::string_view Name(Protocol protocol);

// The protocol's name of an element type; empty: it has none.
absl::string_view DatatypeName(DataType type);

// INVALID_ARGUMENT where the Open Inference Protocol has no words for a request of the workload:
// names request, field and value, and what can be asked for instead.
absl::Status CheckOip(const Workload& workload);

}  // namespace gemmd::load
