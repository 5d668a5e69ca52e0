#include "base/digest/operand_digest.h"

#include <algorithm>
#include <string>

#include "base/math.h"
#include "base/sync/thread_loop.h"

namespace gemmd {
namespace {

constexpr absl::string_view kDomain = "gemmd.v1.operand\n";

// gemmd.v1.DataType has these values plus one, because its 0 is "unspecified".
std::uint32_t WireNumber(DataType type) { return static_cast<std::uint32_t>(type) + 1; }

template <typename Integer>
void AppendLittleEndian(Integer value, std::string* to) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    to->push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  }
}

}  // namespace

std::vector<Sha256Digest> ChunkDigests(absl::string_view plane, int threads) {
  constexpr std::size_t kChunksAThread = 8;  // less takes about as long as to start one
  const std::size_t count = CeilOfRatio(plane.size(), kDigestChunkBytes);
  std::vector<Sha256Digest> chunks(count);
  const std::size_t most = std::min<std::size_t>(count / kChunksAThread, std::max(1, threads));
  ForEachOnThreads(count, most, [&](std::size_t chunk) {
    chunks[chunk] = Sha256Of(plane.substr(chunk * kDigestChunkBytes, kDigestChunkBytes));
  });
  return chunks;
}

Sha256Digest OperandDigest(DataType stored, const std::vector<DigestPlane>& planes,
                           const std::optional<BlockScaling>& blocks, const KOrder& order) {
  Sha256 hash;
  std::string text(kDomain);
  AppendLittleEndian(WireNumber(stored), &text);
  AppendLittleEndian(static_cast<std::uint32_t>(planes.size()), &text);
  for (const DigestPlane& plane : planes) {
    AppendLittleEndian(plane.name, &text);
    AppendLittleEndian(WireNumber(plane.type), &text);
    AppendLittleEndian(plane.rows, &text);
    AppendLittleEndian(plane.columns, &text);
    AppendLittleEndian(static_cast<std::uint32_t>(plane.order), &text);
    AppendLittleEndian(plane.bytes, &text);
    hash.Update(text);
    text.clear();
    for (const Sha256Digest& chunk : plane.chunks) hash.Update(ToBytes(chunk));
  }
  if (blocks.has_value()) {
    AppendLittleEndian(blocks->block_k, &text);
    AppendLittleEndian(blocks->block_lines, &text);
    AppendLittleEndian(std::uint32_t{blocks->is_tiled ? 1u : 0u}, &text);
  }
  if (order != nullptr) {
    for (const std::uint32_t place : *order) AppendLittleEndian(place, &text);
  }
  hash.Update(text);
  return hash.Finish();
}

}  // namespace gemmd
