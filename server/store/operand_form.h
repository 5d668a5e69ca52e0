// An operand's planes as the store keeps them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/digest/operand_digest.h"
#include "base/order/k_order.h"
#include "kernels/gemm.h"
#include "server/device/planes.h"

namespace gemmd {

// Tightly packed planes. A value.
struct OperandForm {
  MatrixLayout data;
  std::optional<MatrixLayout> scales;
  std::optional<MatrixLayout> zero_points;
  std::optional<MatrixLayout> tensor_scale;
  std::optional<MatrixLayout> offsets;
  std::optional<BlockScaling> blocks;  // of scales, zero points and offsets
  KOrder k_order;                      // null: K lies in the order of the product

  // Null: it has none.
  const MatrixLayout* plane(PlaneName plane) const;
  std::uint64_t size_bytes() const;  // of the planes
  std::uint64_t order_bytes() const;
};

bool operator==(const OperandForm& x, const OperandForm& y);

// The digest of an operand of this form whose planes have these chunk digests, by plane.
Sha256Digest DigestOf(const OperandForm& form,
                      const OperandPlanes<std::vector<Sha256Digest>>& chunks);

}  // namespace gemmd
