// A matrix that goes along with the request, or to a server that keeps it: its elements, and what
// they are worth. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/numbers/scaling.h"
#include "base/order/k_order.h"
#include "client/matrix.h"
#include "gemmd/v1/matrix.pb.h"

namespace gemmd::client {

inline constexpr v1::PlaneName kPlaneNames[] = {v1::DATA, v1::SCALES, v1::ZERO_POINTS,
                                                v1::TENSOR_SCALE, v1::OFFSETS};

// An element is worth (what is stored - zero point) * scale * scale of the tensor + offset;
// matrix.proto has the formats, and the shape and the type of each plane.
struct InlineOperand {
  // A matrix is an operand without further words.
  InlineOperand(Matrix matrix, std::optional<Matrix> its_scales = std::nullopt)  // NOLINT
      : data(std::move(matrix)), scales(std::move(its_scales)) {}

  Matrix data;
  // Without blocks of f32, for int8, uint8 and fp8: 1 x 1, or M x 1 of A (one for each row of
  // op(A)) and 1 x N of B (for each column of op(B)).
  std::optional<Matrix> scales;
  std::optional<Matrix> zero_points;   // as scales, int8 or uint8
  std::optional<Matrix> tensor_scale;  // 1 x 1 f32
  std::optional<Matrix> offsets;       // as scales, and of their type; not beside zero points
  // The blocks of scales, zero points and offsets, which then have the shape of the data but for a
  // place for each block.
  std::optional<BlockScaling> blocks;
  // Null: K lies in the order of the product. An order is of blocks, and of operands that stay:
  // Encode() puts the other operand in it instead, where both go along with the request.
  KOrder k_order;

  // Null: it has none.
  const Matrix* plane(v1::PlaneName name) const;
  std::uint64_t size_bytes() const;  // of all planes
};

// The plane of that name in the wire's operand, which is made where there is none.
v1::Plane* MutablePlane(v1::PlaneName name, v1::Operand* operand);
// Null where the operand has none.
const v1::Plane* FindPlane(v1::PlaneName name, const v1::Operand& operand);

void SetOrder(const KOrder& order, v1::Operand* operand);
// INVALID_ARGUMENT: it is no order of K.
absl::StatusOr<KOrder> OrderOf(const v1::Operand& operand, std::uint64_t k);
void SetBlocks(const BlockScaling& blocks, v1::Quantization* wire);
BlockScaling BlocksOf(const v1::Quantization& wire);

}  // namespace gemmd::client
