// The digest of an uploaded operand, which names it on every server. operands.proto has the bytes
// that are hashed, which these functions build: change neither without the other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/digest/sha256.h"
#include "base/numbers/types.h"
#include "base/order/k_order.h"

namespace gemmd {

// Each plane is hashed in pieces of this size; the last one may be shorter.
inline constexpr std::uint64_t kDigestChunkBytes = 1 << 20;

// One plane, tightly packed.
struct DigestPlane {
  std::uint32_t name = 0;  // gemmd.v1.PlaneName
  DataType type = DataType::kF32;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  Order order = Order::kRowMajor;
  std::uint64_t bytes = 0;
  std::vector<Sha256Digest> chunks;  // one for each kDigestChunkBytes begun
};

// The digests of the plane's chunks. The bytes are those of the whole plane. At most `threads`
// threads compute them, this one included, if there is enough for each.
std::vector<Sha256Digest> ChunkDigests(absl::string_view plane, int threads = 1);

// `blocks`: those of scales and zero points, where there are any along K. `order`: of K.
// REQUIRES: planes in the order of their names; blocks, where there is an order.
Sha256Digest OperandDigest(DataType stored, const std::vector<DigestPlane>& planes,
                           const std::optional<BlockScaling>& blocks = std::nullopt,
                           const KOrder& order = nullptr);

}  // namespace gemmd
