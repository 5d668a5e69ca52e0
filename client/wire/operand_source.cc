#include "client/wire/operand_source.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest/operand_digest.h"
#include "base/process/cpu_share.h"
#include "client/file.h"
#include "client/wire/wire_types.h"

namespace gemmd::client {
namespace {

absl::Status CheckStorable(const Matrix& matrix) {
  if (matrix.format().has_no_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(matrix.format()), ": an uploaded matrix has elements"));
  }
  if (matrix.format().stride() == matrix.format().inner()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToString(matrix.format()), ": an uploaded matrix is tightly packed"));
}

// The digests of a plane's chunks. A mapped file may be as large as a model, so that only a window
// of it is in memory at a time.
std::vector<Sha256Digest> ChunksOf(const Bytes& bytes) {
  constexpr std::uint64_t kWindow = 32 * kDigestChunkBytes;
  const absl::string_view all = bytes.view();
  if (!bytes.is_mapped_file() || all.size() <= kWindow) return ChunkDigests(all, UsableCpus());
  std::vector<Sha256Digest> chunks;
  for (std::uint64_t at = 0; at < all.size(); at += kWindow) {
    const Bytes window = bytes.Part(all.substr(at, kWindow));
    const std::vector<Sha256Digest> some = ChunkDigests(window.view(), UsableCpus());
    chunks.insert(chunks.end(), some.begin(), some.end());
    ReleasePages(window);
  }
  return chunks;
}

DigestPlane Hash(v1::PlaneName name, const Matrix& matrix) {
  const MatrixFormat& format = matrix.format();
  return {static_cast<std::uint32_t>(name),
          format.type,
          format.rows,
          format.columns,
          format.order,
          matrix.bytes().size(),
          ChunksOf(matrix.shared_bytes())};
}

}  // namespace

absl::StatusOr<OperandSource> OperandSource::Create(InlineOperand operand) {
  std::vector<DigestPlane> planes;
  for (const v1::PlaneName name : kPlaneNames) {
    const Matrix* const matrix = operand.plane(name);
    if (matrix == nullptr) continue;
    if (absl::Status status = CheckStorable(*matrix); !status.ok()) return status;
    planes.push_back(Hash(name, *matrix));
  }
  std::string digest =
      ToBytes(OperandDigest(operand.data.format().type, planes, operand.blocks, operand.k_order));
  return OperandSource(
      std::make_shared<const Content>(Content{std::move(operand), std::move(digest)}));
}

v1::Operand OperandSource::Describe() const {
  v1::Operand operand;
  for (const v1::PlaneName name : kPlaneNames) {
    if (const Matrix* const matrix = plane(name)) {
      SetPlane(matrix->format(), MutablePlane(name, &operand));
    }
  }
  if (content_->operand.blocks) {
    SetBlocks(*content_->operand.blocks, operand.mutable_quantization());
  }
  SetOrder(content_->operand.k_order, &operand);
  return operand;
}

}  // namespace gemmd::client
