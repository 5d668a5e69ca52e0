// An operand's planes as the store keeps them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "digest/operand_digest.h"
#include "kernels/gemm.h"

namespace gemmd {

enum class StoredPlane : std::uint8_t { kData, kScales };
inline constexpr std::size_t kStoredPlanes = 2;

// Tightly packed planes. A value.
struct OperandForm {
  MatrixLayout data;
  std::optional<MatrixLayout> scales;  // of f32

  // Null: it has none.
  const MatrixLayout* plane(StoredPlane plane) const;
  std::uint64_t size_bytes() const;
};

bool operator==(const OperandForm& x, const OperandForm& y);

// The digest of an operand of this form whose planes have these chunk digests, by plane.
Sha256Digest DigestOf(const OperandForm& form, std::vector<std::vector<Sha256Digest>> chunks);

}  // namespace gemmd
