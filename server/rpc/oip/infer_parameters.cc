#include "server/rpc/oip/infer_parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/quoted.h"
#include "server/rpc/oip/datatypes.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;
using inference::InferParameter;

std::string ValueText(const InferParameter& value) {
  switch (value.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return value.bool_param() ? "true" : "false";
    case InferParameter::kInt64Param:
      return StrCat(value.int64_param());
    case InferParameter::kStringParam:
      return Quoted(value.string_param());
    case InferParameter::kDoubleParam:
      return StrCat(value.double_param());
    case InferParameter::kUint64Param:
      return StrCat(value.uint64_param());
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return "not set";
}

absl::Status Refuse(absl::string_view name, const InferParameter& value, absl::string_view limit) {
  return InvalidArgumentError(
      StrCat("parameter '", name, "' is ", ValueText(value), "; it must be ", limit));
}

absl::Status Read(absl::string_view name, const InferParameter& value, bool* to) {
  if (value.parameter_choice_case() != InferParameter::kBoolParam) {
    return Refuse(name, value, "true or false");
  }
  *to = value.bool_param();
  return absl::OkStatus();
}

// Clients in Python send 2 as an integer.
absl::Status Read(absl::string_view name, const InferParameter& value, double* to) {
  switch (value.parameter_choice_case()) {
    case InferParameter::kDoubleParam:
      *to = value.double_param();
      break;
    case InferParameter::kInt64Param:
      *to = static_cast<double>(value.int64_param());
      break;
    case InferParameter::kUint64Param:
      *to = static_cast<double>(value.uint64_param());
      break;
    default:
      return Refuse(name, value, "a number");
  }
  return std::isfinite(*to) ? absl::OkStatus() : Refuse(name, value, "finite");
}

absl::Status Read(absl::string_view name, const InferParameter& value, std::string* to) {
  if (value.parameter_choice_case() != InferParameter::kStringParam) {
    return Refuse(name, value, "a string");
  }
  *to = value.string_param();
  return absl::OkStatus();
}

absl::Status Read(absl::string_view name, const InferParameter& value, std::uint64_t most,
                  std::uint64_t* to) {
  const std::string limit = StrCat("an integer of 0 to ", most);
  if (value.parameter_choice_case() == InferParameter::kInt64Param) {
    if (value.int64_param() < 0) return Refuse(name, value, limit);
    *to = static_cast<std::uint64_t>(value.int64_param());
  } else if (value.parameter_choice_case() == InferParameter::kUint64Param) {
    *to = value.uint64_param();
  } else {
    return Refuse(name, value, limit);
  }
  return *to <= most ? absl::OkStatus() : Refuse(name, value, limit);
}

// Reads one of `values` by its name.
template <typename T, std::size_t count>
absl::Status ReadName(absl::string_view name, const InferParameter& value, const T (&values)[count],
                      T* to) {
  const auto* const found = std::find_if(std::begin(values), std::end(values), [&](T each) {
    return value.parameter_choice_case() == InferParameter::kStringParam &&
           value.string_param() == Name(each);
  });
  if (found == std::end(values)) {
    return Refuse(name, value, absl::StrJoin(values, ", ", [](std::string* text, T each) {
                    absl::StrAppend(text, "\"", std::string(Name(each)), "\"");
                  }));
  }
  *to = *found;
  return absl::OkStatus();
}

constexpr Activation kActivations[] = {Activation::kNone, Activation::kRelu, Activation::kGeluTanh,
                                       Activation::kSilu};
constexpr Determinism kDeterminisms[] = {Determinism::kBatchInvariant, Determinism::kFast};

absl::Status ReadOutputType(absl::string_view name, const InferParameter& value,
                            std::optional<DataType>* to) {
  const std::optional<DataType> type = value.parameter_choice_case() == InferParameter::kStringParam
                                           ? DatatypeOf(value.string_param())
                                           : std::nullopt;
  if (!type.has_value() || *type == DataType::kInt8) {
    return Refuse(name, value, R"("FP64", "FP32", "FP16", "BF16" or "INT32")");
  }
  *to = type;
  return absl::OkStatus();
}

// As the configuration of the models says: 1 is the highest of three, and 0 the default.
absl::Status ReadPriority(absl::string_view name, const InferParameter& value, Priority* to) {
  constexpr Priority kLevels[] = {Priority::kNormal, Priority::kHigh, Priority::kNormal,
                                  Priority::kLow};
  std::uint64_t level = 0;
  if (absl::Status s = Read(name, value, std::size(kLevels) - 1, &level); !s.ok()) return s;
  *to = kLevels[level];
  return absl::OkStatus();
}

constexpr const char* kKnown =
    "transpose_a, transpose_b, alpha, beta, activation, output_type, kernel, determinism, verify, "
    "priority, timeout, receipt, triton_enable_empty_final_response";

absl::Status ReadOne(const std::string& name, const InferParameter& value, MatmulCall* call,
                     InferOptions* options) {
  // Ends the wait of a request for years at most, so that times stay within their type.
  constexpr std::uint64_t kMostUs = std::uint64_t{1} << 50;
  if (name == "transpose_a") return Read(name, value, &call->transpose_a);
  if (name == "transpose_b") return Read(name, value, &options->transpose_b.emplace());
  if (name == "alpha") return Read(name, value, &call->alpha);
  if (name == "beta") {
    options->has_beta = true;
    return Read(name, value, &call->beta);
  }
  if (name == "activation") return ReadName(name, value, kActivations, &call->activation);
  if (name == "output_type") return ReadOutputType(name, value, &call->output_type);
  if (name == "kernel") return Read(name, value, &call->kernel);
  if (name == "determinism") return ReadName(name, value, kDeterminisms, &call->determinism);
  if (name == "verify") {
    constexpr std::uint64_t kMostVectors = 64;  // as validation has it
    std::uint64_t vectors = 0;
    const absl::Status status = Read(name, value, kMostVectors, &vectors);
    call->verification_vectors = static_cast<std::uint32_t>(vectors);
    return status;
  }
  if (name == "priority") return ReadPriority(name, value, &call->priority);
  if (name == "timeout") return Read(name, value, kMostUs, &options->queue_timeout_us);
  if (name == "receipt") return Read(name, value, &options->wants_receipt);
  if (name == "triton_enable_empty_final_response") {
    return Read(name, value, &options->wants_final_response);
  }
  if (absl::StartsWith(name, "sequence_")) {
    return InvalidArgumentError(
        StrCat("parameter '", Quoted(name),
               "' is set; gemmd has no sequences: no product depends on another"));
  }
  return InvalidArgumentError(
      StrCat("unexpected parameter ", Quoted(name), "; a request may have ", kKnown));
}

}  // namespace

absl::Status ReadParameters(const InferParameters& parameters, MatmulCall* call,
                            InferOptions* options) {
  for (const auto& [name, value] : parameters) {
    if (absl::Status s = ReadOne(name, value, call, options); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status ReadTensorParameters(absl::string_view tensor, const InferParameters& parameters,
                                  std::optional<SharedTensor>* shared) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  SharedTensor place;
  bool has_region = false;
  bool has_bytes = false;
  for (const auto& [name, value] : parameters) {
    absl::Status status;
    if (name == "shared_memory_region") {
      has_region = true;
      status = Read(name, value, &place.region);
    } else if (name == "shared_memory_byte_size") {
      has_bytes = true;
      status = Read(name, value, kMost, &place.bytes);
    } else if (name == "shared_memory_offset") {
      status = Read(name, value, kMost, &place.offset);
    } else if (name == "classification") {
      status = InvalidArgumentError(
          "parameter 'classification' is set; gemmd gives D as it is, and no classes");
    } else {
      status = InvalidArgumentError(
          StrCat("unexpected parameter ", Quoted(name),
                 "; a tensor may have shared_memory_region, shared_memory_offset and "
                 "shared_memory_byte_size"));
    }
    if (!status.ok()) return InvalidArgumentError(StrCat(status.message(), ", of ", tensor));
  }
  if (parameters.empty()) return absl::OkStatus();
  if (!has_region || !has_bytes) {
    return InvalidArgumentError(
        StrCat("parameter '", has_region ? "shared_memory_byte_size" : "shared_memory_region",
               "' is missing, of ", tensor,
               "; a tensor in shared memory has shared_memory_region and "
               "shared_memory_byte_size"));
  }
  *shared = std::move(place);
  return absl::OkStatus();
}

}  // namespace gemmd
