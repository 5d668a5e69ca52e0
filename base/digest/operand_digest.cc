#include "base/digest/operand_digest.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

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
  const std::size_t count = (plane.size() + kDigestChunkBytes - 1) / kDigestChunkBytes;
  std::vector<Sha256Digest> chunks(count);
  // Each free thread takes the next chunk: cores need not be alike, nor idle.
  std::atomic<std::size_t> next{0};
  const auto hash = [&] {
    for (std::size_t chunk = next++; chunk < count; chunk = next++) {
      chunks[chunk] = Sha256Of(plane.substr(chunk * kDigestChunkBytes, kDigestChunkBytes));
    }
  };
  const std::size_t most = std::max<std::size_t>(1, count / kChunksAThread);
  std::vector<std::thread> helpers(std::min(most, static_cast<std::size_t>(std::max(1, threads))) -
                                   1);
  for (std::thread& helper : helpers) helper = std::thread(hash);
  hash();
  for (std::thread& helper : helpers) helper.join();
  return chunks;
}

Sha256Digest OperandDigest(DataType stored, const std::vector<DigestPlane>& planes,
                           const std::optional<BlockScaling>& blocks) {
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
  hash.Update(text);
  return hash.Finish();
}

}  // namespace gemmd
