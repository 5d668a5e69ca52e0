#include "server/store/operand_form.h"

#include <utility>

namespace gemmd {
namespace {

constexpr StoredPlane kPlanes[kStoredPlanes] = {
    StoredPlane::kData, StoredPlane::kScales, StoredPlane::kZeroPoints, StoredPlane::kTensorScale};

bool AreEqual(const MatrixLayout* x, const MatrixLayout* y) {
  if (x == nullptr || y == nullptr) return x == y;
  return x->type == y->type && x->rows == y->rows && x->columns == y->columns &&
         x->order == y->order && x->leading_dimension == y->leading_dimension;
}

const MatrixLayout* AddressOf(const std::optional<MatrixLayout>& layout) {
  return layout.has_value() ? &*layout : nullptr;
}

}  // namespace

absl::string_view Name(StoredPlane plane) {
  switch (plane) {
    case StoredPlane::kData:
      return "data";
    case StoredPlane::kScales:
      return "scales";
    case StoredPlane::kZeroPoints:
      return "zero_points";
    case StoredPlane::kTensorScale:
      return "tensor_scale";
  }
  return "?";
}

const MatrixLayout* OperandForm::plane(StoredPlane plane) const {
  switch (plane) {
    case StoredPlane::kData:
      return &data;
    case StoredPlane::kScales:
      return AddressOf(scales);
    case StoredPlane::kZeroPoints:
      return AddressOf(zero_points);
    case StoredPlane::kTensorScale:
      return AddressOf(tensor_scale);
  }
  return nullptr;
}

std::uint64_t OperandForm::size_bytes() const {
  std::uint64_t bytes = 0;
  for (const StoredPlane each : kPlanes) {
    if (const MatrixLayout* const layout = plane(each)) bytes += layout->size_bytes();
  }
  return bytes;
}

bool OperandForm::may_land() const {
  return SizeBits(data.type) >= 8 && data.type != DataType::kUint8 && !blocks.has_value() &&
         !zero_points.has_value() && !tensor_scale.has_value();
}

bool operator==(const OperandForm& x, const OperandForm& y) {
  for (const StoredPlane each : kPlanes) {
    if (!AreEqual(x.plane(each), y.plane(each))) return false;
  }
  return x.blocks == y.blocks;
}

Sha256Digest DigestOf(const OperandForm& form, std::vector<std::vector<Sha256Digest>> chunks) {
  std::vector<DigestPlane> planes;
  for (std::size_t i = 0; i < kStoredPlanes; ++i) {
    const MatrixLayout* const layout = form.plane(kPlanes[i]);
    if (layout == nullptr) continue;
    planes.push_back({static_cast<std::uint32_t>(i), layout->type,
                      static_cast<std::uint64_t>(layout->rows),
                      static_cast<std::uint64_t>(layout->columns), layout->order,
                      layout->size_bytes(), std::move(chunks[i])});
  }
  return OperandDigest(form.data.type, planes, form.blocks);
}

}  // namespace gemmd
