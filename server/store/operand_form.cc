#include "server/store/operand_form.h"

#include <utility>

namespace gemmd {
namespace {

bool AreEqual(const MatrixLayout& x, const MatrixLayout& y) {
  return x.type == y.type && x.rows == y.rows && x.columns == y.columns && x.order == y.order &&
         x.leading_dimension == y.leading_dimension;
}

}  // namespace

const MatrixLayout* OperandForm::plane(StoredPlane plane) const {
  if (plane == StoredPlane::kData) return &data;
  return scales.has_value() ? &*scales : nullptr;
}

std::uint64_t OperandForm::size_bytes() const {
  return data.size_bytes() + (scales.has_value() ? scales->size_bytes() : 0);
}

bool operator==(const OperandForm& x, const OperandForm& y) {
  if (x.scales.has_value() != y.scales.has_value()) return false;
  return AreEqual(x.data, y.data) && (!x.scales.has_value() || AreEqual(*x.scales, *y.scales));
}

Sha256Digest DigestOf(const OperandForm& form, std::vector<std::vector<Sha256Digest>> chunks) {
  std::vector<DigestPlane> planes;
  for (std::size_t i = 0; i < kStoredPlanes; ++i) {
    const MatrixLayout* const layout = form.plane(static_cast<StoredPlane>(i));
    if (layout == nullptr) continue;
    planes.push_back({static_cast<std::uint32_t>(i), layout->type,
                      static_cast<std::uint64_t>(layout->rows),
                      static_cast<std::uint64_t>(layout->columns), layout->order,
                      layout->size_bytes(), std::move(chunks[i])});
  }
  return OperandDigest(form.data.type, planes);
}

}  // namespace gemmd
