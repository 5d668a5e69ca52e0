#include <algorithm>
#include <array>
#include <cstring>

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

}  // namespace

absl::StatusOr<Payload> CollectPayload(const MatmulCall& call, const Problem& problem) {
  const MatrixLayout bias{problem.d.type, 1, problem.n, Order::kRowMajor,
                          call.bias.has_value() && call.bias->data.leading_dimension != 0
                              ? static_cast<std::int64_t>(call.bias->data.leading_dimension)
                              : problem.n};
  const std::array<const MatrixLayout*, kOperandCount> layouts = {
      &problem.a, &problem.b, call.c.has_value() ? &problem.c : nullptr,
      call.bias.has_value() ? &bias : nullptr};

  std::array<Chunks, kOperandCount> chunks;
  for (const PayloadChunk& chunk : call.payload) {
    const auto operand = static_cast<std::size_t>(chunk.operand);
    if (layouts[operand] == nullptr || chunk.plane != PlaneName::kData) {
      return InvalidArgumentError(StrCat("payload has a chunk for a plane of ", Name(chunk.operand),
                                         " that the header does not have"));
    }
    chunks[operand].push_back(&chunk);
  }

  Payload payload;
  for (std::size_t operand = 0; operand < kOperandCount; ++operand) {
    if (layouts[operand] == nullptr) continue;
    Chunks& own = chunks[operand];
    std::stable_sort(own.begin(), own.end(),
                     [](const auto* x, const auto* y) { return x->offset < y->offset; });
    const MatrixLayout& layout = *layouts[operand];
    if (absl::Status s = CheckCover(Name(static_cast<OperandName>(operand)), own,
                                    layout.size_bytes(), PaddedBytes(layout));
        !s.ok()) {
      return s;
    }
    for (const PayloadChunk* chunk : own) payload.bytes += chunk->bytes.size();
    if (own.size() == 1) {
      payload.operands[operand] = own.front()->bytes.data();
      continue;
    }
    std::vector<char>& whole = payload.gathered.emplace_back();
    for (const PayloadChunk* chunk : own) {
      whole.insert(whole.end(), chunk->bytes.begin(), chunk->bytes.end());
    }
    payload.operands[operand] = whole.data();
  }
  return payload;
}

}  // namespace gemmd
