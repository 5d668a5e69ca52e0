#include "tests/server/rpc/infer_request_check.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/payload_codec.h"
#include "server/rpc/oip/infer_request.h"

namespace gemmd::testing {
namespace {

InferModel ModelOf(int number) {
  switch (number) {
    case 0:
      return {"matmul_fp32", {DataType::kF32}, std::nullopt};
    case 1:
      return {"matmul_int8", {DataType::kInt8}, std::nullopt};
    case 2:
      return {"matmul_bf16", {DataType::kBf16}, std::nullopt};
    case 3: {
      InferModel model{"linear/w", {DataType::kF64}, InferResident()};
      model.resident->rows = 3;
      model.resident->columns = 2;
      return model;
    }
    default: {
      InferModel model{"linear/q",
                       {DataType::kF32, DataType::kF16, DataType::kBf16, DataType::kInt8},
                       InferResident()};
      model.resident->rows = 2;
      model.resident->columns = 64;
      model.resident->is_transposed = model.resident->is_scaled = true;
      return model;
    }
  }
}

std::uint64_t SizeOf(const PayloadChunk& chunk) {
  std::uint64_t size = 0;
  for (const absl::string_view piece : chunk.pieces) size += piece.size();
  return size;
}

// Returns whether the piece lies in the message, or in typed contents that the product keeps.
bool IsOurs(absl::string_view piece, absl::string_view bytes, const InferProduct& product) {
  const auto lies_in = [piece](absl::string_view whole) {
    return piece.data() >= whole.data() &&
           piece.data() + piece.size() <= whole.data() + whole.size();
  };
  if (lies_in(bytes)) return true;
  for (const std::string& typed : product.typed) {
    if (lies_in(typed)) return true;
  }
  return false;
}

// The bytes that came for a plane, each plane in one chunk.
std::string CheckPlane(const PlaneSpec& spec, OperandName operand, PlaneName plane,
                       const InferProduct& product, absl::string_view bytes,
                       const RequestLimits& limits) {
  if (spec.rows > limits.dimension || spec.columns > limits.dimension) {
    return absl::StrCat(Name(operand, plane), " is ", spec.rows, " x ", spec.columns);
  }
  using Wide = unsigned __int128;
  const Wide wanted = Wide{spec.rows} * spec.columns * static_cast<Wide>(SizeBits(spec.type)) / 8;
  std::uint64_t came = 0;
  int chunks = 0;
  for (const PayloadChunk& chunk : product.payload) {
    if (chunk.operand != operand || chunk.plane != plane) continue;
    ++chunks;
    came += SizeOf(chunk);
    for (const absl::string_view piece : chunk.pieces) {
      if (!IsOurs(piece, bytes, product)) return "a chunk lies in no message";
    }
  }
  if (came == wanted && chunks <= 1) return "";
  return absl::StrCat(Name(operand, plane), " of ", spec.rows, " x ", spec.columns, ": ", chunks,
                      " chunks of ", came, " came");
}

std::string CheckProduct(const InferProduct& product, absl::string_view bytes,
                         const RequestLimits& limits) {
  const MatmulCall& call = product.call;
  if (!call.a.has_value() || !call.b.has_value()) return "an operand is missing";
  const std::pair<OperandName, const std::optional<OperandSpec>&> operands[] = {
      {OperandName::kA, call.a},
      {OperandName::kB, call.b},
      {OperandName::kC, call.c},
      {OperandName::kBias, call.bias},
  };
  for (const auto& [name, spec] : operands) {
    if (!spec.has_value() || spec->source != Source::kInline) continue;
    std::string wrong = CheckPlane(spec->data, name, PlaneName::kData, product, bytes, limits);
    if (wrong.empty() && spec->scales.has_value()) {
      wrong = CheckPlane(*spec->scales, name, PlaneName::kScales, product, bytes, limits);
    }
    if (!wrong.empty()) return wrong;
  }
  if (product.answer.id.size() > kMostIdBytes) return "the id is too long";
  if (product.answer.shape.size() < 2) return "D has no shape";
  const std::uint64_t rows = call.transpose_a ? call.a->data.columns : call.a->data.rows;
  std::uint64_t of_answer = 1;
  for (std::size_t i = 0; i + 1 < product.answer.shape.size(); ++i) {
    of_answer *= static_cast<std::uint64_t>(product.answer.shape[i]);
  }
  if (of_answer != rows) {
    return absl::StrCat("D has ", of_answer, " rows, and op(A) has ", rows);
  }
  if (call.b->source == Source::kResident) return "";  // whose header names no shape yet
  const absl::StatusOr<Problem> problem = ValidateHeader(call, limits);
  if (!problem.ok()) return problem.status().message().empty() ? "a refusal says nothing" : "";
  const bool is_same = static_cast<std::uint64_t>(problem->m) == of_answer &&
                       problem->n == product.answer.shape.back();
  return is_same ? "" : absl::StrCat("D is to be ", problem->m, " x ", problem->n);
}

}  // namespace

std::string WhatIsWrong(int model, absl::string_view bytes, std::size_t cut, bool* is_taken) {
  *is_taken = false;
  const absl::string_view pieces[] = {bytes.substr(0, cut),
                                      bytes.substr(std::min(cut, bytes.size()))};
  inference::ModelInferRequest request;
  PayloadViews raw;
  if (!ParseAroundPayload(pieces, &request, &raw)) return "";
  RequestLimits limits;
  limits.request_bytes = limits.result_bytes = 1 << 20;
  absl::StatusOr<InferProduct> product =
      MapRequest(request, raw, ModelOf(model), limits,
                 [](const std::string& name) -> absl::StatusOr<std::string> {
                   if (name == "r") return std::string("secret");
                   return absl::NotFoundError("no such region");
                 });
  if (!product.ok()) return product.status().message().empty() ? "a refusal says nothing" : "";
  *is_taken = true;
  // As the decoder does: typed contents must not move with it.
  const InferProduct kept = *std::move(product);
  return CheckProduct(kept, bytes, limits);
}

}  // namespace gemmd::testing
