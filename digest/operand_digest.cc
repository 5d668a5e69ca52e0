#include "digest/operand_digest.h"

#include <algorithm>
#include <string>

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

std::vector<Sha256Digest> ChunkDigests(absl::string_view plane) {
  std::vector<Sha256Digest> chunks;
  for (std::size_t at = 0; at < plane.size(); at += kDigestChunkBytes) {
    chunks.push_back(Sha256Of(plane.substr(at, kDigestChunkBytes)));
  }
  return chunks;
}

Sha256Digest OperandDigest(DataType stored, const std::vector<DigestPlane>& planes) {
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
  hash.Update(text);
  return hash.Finish();
}

}  // namespace gemmd
