// Models of the Open Inference Protocol: products under names.
//
//   matmul_fp64, matmul_fp32, matmul_fp16, matmul_bf16, matmul_int8
//                 D = activation(alpha op(A) op(B) + beta C + BIAS), of what comes with the request
//   linear/NAME   likewise, where B is the caller's operand of that name (server/store)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/numbers/types.h"
#include "inference/grpc_service.pb.h"
#include "server/store/operand_store.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// All models have this version, and no other.
inline constexpr absl::string_view kModelVersion = "1";

// The inputs that a model may have, in the order in which it lists them.
enum class InferInput : std::uint8_t { kA, kB, kC, kBias, kAScale, kBScale };
inline constexpr InferInput kInferInputs[] = {InferInput::kA,      InferInput::kB,
                                              InferInput::kC,      InferInput::kBias,
                                              InferInput::kAScale, InferInput::kBScale};
absl::string_view Name(InferInput input);

// The operand of a linear/ model.
struct InferResident {
  std::string name;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  // Its blocks lie along its columns, so that it is op(B) transposed alone.
  bool is_transposed = false;
  bool is_scaled = false;
};

// A model: what it takes and what it gives. A value.
struct InferModel {
  std::string name;
  std::vector<DataType> a_types;  // that A may have; the metadata tells the first
  std::optional<InferResident> resident;

  bool has(InferInput input) const;
  bool needs(InferInput input) const {
    return input == InferInput::kA || (input == InferInput::kB && !resident.has_value());
  }
  // D's, unless the request says another, for such an A.
  DataType OutputOf(DataType a, bool is_scaled) const;
  // "A, B, C, BIAS"
  std::string inputs_text() const;
};

// NOT_FOUND: the tenant has no such model, or not of that version. FAILED_PRECONDITION: it has the
// operand, and the protocol has no datatype for what it multiplies. INVALID_ARGUMENT: no operand
// can have that name.
absl::StatusOr<InferModel> FindModel(OperandStore* store, const Tenant& tenant,
                                     const std::string& name, const std::string& version);

// The models that come with the server.
std::vector<InferModel> BuiltInModels();

// One row of a repository's index.
struct ModelIndexRow {
  std::string name;
  absl::Status status;  // OK: it is ready
};
// The built-in models, the tenant's operands that have names, and matrices of `files` that are no
// operand now; at most `most` of these two together.
std::vector<ModelIndexRow> ListModels(OperandStore* store, const Tenant& tenant,
                                      const std::vector<std::string>& files, std::size_t most);

// The name of the operand that a linear/ model multiplies by. INVALID_ARGUMENT: it is no such
// model, or no operand can have that name.
absl::StatusOr<std::string> OperandOf(const std::string& model);

// Both list the inputs that the model needs: perf_analyzer sends all that it is told of, optional
// or not, and asks its user for their shapes.
inference::ModelMetadataResponse MetadataOf(const InferModel& model);
inference::ModelConfig ConfigOf(const InferModel& model);

}  // namespace gemmd
