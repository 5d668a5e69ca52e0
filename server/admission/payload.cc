#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/admission/validation.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

using Chunks = std::vector<const PayloadChunk*>;

// Pads after the last line are accepted and not needed.
std::uint64_t PaddedBytes(const MatrixLayout& layout) {
  const std::uint64_t elements = static_cast<std::uint64_t>(layout.outer()) *
                                 static_cast<std::uint64_t>(layout.leading_dimension);
  return (elements * static_cast<std::uint64_t>(SizeBits(layout.type)) + 7) / 8;
}

// Neighbours in `chunks`, sorted by offset, must meet exactly.
absl::Status CheckCover(absl::string_view name, const Chunks& chunks, std::uint64_t size,
                        std::uint64_t padded_size) {
  std::uint64_t end = 0;
  for (const PayloadChunk* chunk : chunks) {
    if (chunk->offset != end) {
      return InvalidArgumentError(StrCat("payload of ", name, ": a chunk of ", chunk->bytes.size(),
                                         " bytes is at offset ", chunk->offset,
                                         "; chunks must cover the plane exactly ",
                                         "once, and the next byte is ", end));
    }
    end += chunk->bytes.size();
  }
  if (end != size && end != padded_size) {
    return InvalidArgumentError(StrCat("payload of ", name, " has ", end, " bytes; its plane has ",
                                       size,
                                       padded_size == size ? std::string()
                                                           : StrCat(" (", padded_size,
                                                                    " with the last line's "
                                                                    "padding)")));
  }
  return absl::OkStatus();
}

// One plane that the header has, and where its bytes are.
struct PlaneBytes {
  std::string name;
  MatrixLayout layout;
  Chunks chunks;
};

// The plane's bytes in one piece at an address of this alignment.
absl::StatusOr<const void*> Join(PlaneBytes* plane, std::size_t alignment, Payload* payload) {
  Chunks& chunks = plane->chunks;
  std::stable_sort(chunks.begin(), chunks.end(),
                   [](const auto* x, const auto* y) { return x->offset < y->offset; });
  if (absl::Status s =
          CheckCover(plane->name, chunks, plane->layout.size_bytes(), PaddedBytes(plane->layout));
      !s.ok()) {
    return s;
  }
  for (const PayloadChunk* chunk : chunks) payload->bytes += chunk->bytes.size();
  if (chunks.size() == 1) {
    const char* const whole = chunks.front()->bytes.data();
    if (reinterpret_cast<std::uintptr_t>(whole) % alignment == 0) return whole;
  }
  std::vector<char>& whole = payload->gathered.emplace_back();
  for (const PayloadChunk* chunk : chunks) {
    whole.insert(whole.end(), chunk->bytes.begin(), chunk->bytes.end());
  }
  return whole.data();
}

// A negative scale is refused because quantizers do not make one: it is a mistake.
absl::StatusOr<const float*> JoinScales(PlaneBytes* plane, Payload* payload) {
  const absl::StatusOr<const void*> bytes = Join(plane, alignof(float), payload);
  if (!bytes.ok()) return bytes.status();
  const auto* const scales = static_cast<const float*>(*bytes);
  const std::int64_t count = plane->layout.rows * plane->layout.columns;
  for (std::int64_t i = 0; i < count; ++i) {
    if (scales[i] >= 0 && std::isfinite(scales[i])) continue;
    return InvalidArgumentError(
        StrCat(plane->name, "[", i, "] is ", scales[i], "; a scale must be finite and at least 0"));
  }
  return scales;
}

MatrixLayout VectorOf(DataType type, std::int64_t count) {
  return {type, 1, count, Order::kRowMajor, count};
}

MatrixLayout ScaleLayout(Scaling scaling, std::int64_t count) {
  return VectorOf(DataType::kF32, scaling == Scaling::kTensor ? 1 : count);
}

using Key = std::pair<OperandName, PlaneName>;

// The planes that the call's payload must have.
std::map<Key, PlaneBytes> PlanesOf(const MatmulCall& call, const Problem& problem) {
  std::map<Key, PlaneBytes> planes;
  const auto add = [&planes](OperandName operand, PlaneName plane, absl::string_view suffix,
                             const MatrixLayout& layout) {
    planes[{operand, plane}] = {StrCat(Name(operand), suffix), layout, {}};
  };
  add(OperandName::kA, PlaneName::kData, "", problem.a);
  add(OperandName::kB, PlaneName::kData, "", problem.b);
  if (call.c.has_value()) add(OperandName::kC, PlaneName::kData, "", problem.c);
  if (call.bias.has_value()) {
    MatrixLayout bias = VectorOf(problem.d.type, problem.n);
    if (call.bias->data.leading_dimension != 0) {
      bias.leading_dimension = static_cast<std::int64_t>(call.bias->data.leading_dimension);
    }
    add(OperandName::kBias, PlaneName::kData, "", bias);
  }
  if (problem.a_scaling != Scaling::kNone) {
    add(OperandName::kA, PlaneName::kScales, ".scales", ScaleLayout(problem.a_scaling, problem.m));
  }
  if (problem.b_scaling != Scaling::kNone) {
    add(OperandName::kB, PlaneName::kScales, ".scales", ScaleLayout(problem.b_scaling, problem.n));
  }
  return planes;
}

}  // namespace

absl::StatusOr<Payload> CollectPayload(const MatmulCall& call, const Problem& problem) {
  std::map<Key, PlaneBytes> planes = PlanesOf(call, problem);
  for (const PayloadChunk& chunk : call.payload) {
    const auto plane = planes.find({chunk.operand, chunk.plane});
    if (plane == planes.end()) {
      return InvalidArgumentError(StrCat("payload has a chunk for a plane of ", Name(chunk.operand),
                                         " that the header does not have"));
    }
    plane->second.chunks.push_back(&chunk);
  }

  Payload payload;
  for (auto& [key, plane] : planes) {
    if (key.second == PlaneName::kScales) {
      const absl::StatusOr<const float*> scales = JoinScales(&plane, &payload);
      if (!scales.ok()) return scales.status();
      (key.first == OperandName::kA ? payload.a_scales : payload.b_scales) = *scales;
      continue;
    }
    const absl::StatusOr<const void*> bytes = Join(&plane, 1, &payload);
    if (!bytes.ok()) return bytes.status();
    payload.operands[static_cast<std::size_t>(key.first)] = *bytes;
  }
  return payload;
}

}  // namespace gemmd
