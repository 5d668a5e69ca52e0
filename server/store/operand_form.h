// An operand's planes as the store keeps them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/digest/operand_digest.h"
#include "kernels/gemm.h"

namespace gemmd {

// As gemmd.v1.PlaneName.
enum class StoredPlane : std::uint8_t { kData, kScales, kZeroPoints, kTensorScale };
inline constexpr std::size_t kStoredPlanes = 4;
absl::string_view Name(StoredPlane plane);

// Tightly packed planes. A value.
struct OperandForm {
  MatrixLayout data;
  std::optional<MatrixLayout> scales;
  std::optional<MatrixLayout> zero_points;
  std::optional<MatrixLayout> tensor_scale;
  std::optional<BlockScaling> blocks;  // of scales and zero points

  // Null: it has none.
  const MatrixLayout* plane(StoredPlane plane) const;
  std::uint64_t size_bytes() const;
  // Returns whether devices with memory of their own may hold it: those have kernels for elements
  // of whole bytes and f32 scales of whole lines alone.
  bool may_land() const;
};

bool operator==(const OperandForm& x, const OperandForm& y);

// The digest of an operand of this form whose planes have these chunk digests, by plane.
Sha256Digest DigestOf(const OperandForm& form, std::vector<std::vector<Sha256Digest>> chunks);

}  // namespace gemmd
