#include "server/store/operand_form.h"

#include <utility>

namespace gemmd {
namespace {

bool AreEqual(const MatrixLayout* x, const MatrixLayout* y) {
  if (x == nullptr || y == nullptr) return x == y;
  return x->type == y->type && x->rows == y->rows && x->columns == y->columns &&
         x->order == y->order && x->leading_dimension == y->leading_dimension;
}

const MatrixLayout* AddressOf(const std::optional<MatrixLayout>& layout) {
  return layout.has_value() ? &*layout : nullptr;
}

}  // namespace

const MatrixLayout* OperandForm::plane(PlaneName plane) const {
  switch (plane) {
    case PlaneName::kData:
      return &data;
    case PlaneName::kScales:
      return AddressOf(scales);
    case PlaneName::kZeroPoints:
      return AddressOf(zero_points);
    case PlaneName::kTensorScale:
      return AddressOf(tensor_scale);
    case PlaneName::kOffsets:
      return AddressOf(offsets);
  }
  return nullptr;
}

std::uint64_t OperandForm::size_bytes() const {
  std::uint64_t bytes = 0;
  for (const PlaneName each : kPlaneNames) {
    if (const MatrixLayout* const layout = plane(each)) bytes += layout->size_bytes();
  }
  return bytes;
}

std::uint64_t OperandForm::order_bytes() const {
  return k_order == nullptr ? 0 : k_order->size() * sizeof(std::uint32_t);
}

bool operator==(const OperandForm& x, const OperandForm& y) {
  for (const PlaneName each : kPlaneNames) {
    if (!AreEqual(x.plane(each), y.plane(each))) return false;
  }
  return x.blocks == y.blocks && AreEqual(x.k_order, y.k_order);
}

Sha256Digest DigestOf(const OperandForm& form,
                      const OperandPlanes<std::vector<Sha256Digest>>& chunks) {
  std::vector<DigestPlane> planes;
  for (const PlaneName each : kPlaneNames) {
    const MatrixLayout* const layout = form.plane(each);
    if (layout == nullptr) continue;
    planes.push_back({static_cast<std::uint32_t>(each), layout->type,
                      static_cast<std::uint64_t>(layout->rows),
                      static_cast<std::uint64_t>(layout->columns), layout->order,
                      layout->size_bytes(), chunks[each]});
  }
  return OperandDigest(form.data.type, planes, form.blocks, form.k_order);
}

}  // namespace gemmd
