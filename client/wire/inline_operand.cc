#include "client/wire/inline_operand.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace gemmd::client {
namespace {

const Matrix* AddressOf(const std::optional<Matrix>& matrix) { return matrix ? &*matrix : nullptr; }

}  // namespace

const Matrix* InlineOperand::plane(v1::PlaneName name) const {
  switch (name) {
    case v1::DATA:
      return &data;
    case v1::SCALES:
      return AddressOf(scales);
    case v1::ZERO_POINTS:
      return AddressOf(zero_points);
    case v1::TENSOR_SCALE:
      return AddressOf(tensor_scale);
    case v1::OFFSETS:
      return AddressOf(offsets);
    default:
      return nullptr;
  }
}

std::uint64_t InlineOperand::size_bytes() const {
  std::uint64_t bytes = 0;
  for (const v1::PlaneName name : kPlaneNames) {
    if (const Matrix* const matrix = plane(name)) bytes += matrix->bytes().size();
  }
  return bytes;
}

v1::Plane* MutablePlane(v1::PlaneName name, v1::Operand* operand) {
  switch (name) {
    case v1::SCALES:
      return operand->mutable_scales();
    case v1::ZERO_POINTS:
      return operand->mutable_zero_points();
    case v1::TENSOR_SCALE:
      return operand->mutable_tensor_scale();
    case v1::OFFSETS:
      return operand->mutable_offsets();
    default:
      return operand->mutable_data();
  }
}

const v1::Plane* FindPlane(v1::PlaneName name, const v1::Operand& operand) {
  switch (name) {
    case v1::DATA:
      return operand.has_data() ? &operand.data() : nullptr;
    case v1::SCALES:
      return operand.has_scales() ? &operand.scales() : nullptr;
    case v1::ZERO_POINTS:
      return operand.has_zero_points() ? &operand.zero_points() : nullptr;
    case v1::TENSOR_SCALE:
      return operand.has_tensor_scale() ? &operand.tensor_scale() : nullptr;
    case v1::OFFSETS:
      return operand.has_offsets() ? &operand.offsets() : nullptr;
    default:
      return nullptr;
  }
}

void SetOrder(const KOrder& order, v1::Operand* operand) {
  if (order == nullptr) return;
  operand->set_k_order(order->data(), order->size() * sizeof(std::uint32_t));
}

absl::StatusOr<KOrder> OrderOf(const v1::Operand& operand, std::uint64_t k) {
  const std::string& bytes = operand.k_order();
  if (bytes.empty()) return KOrder();
  std::vector<std::uint32_t> order(bytes.size() / sizeof(std::uint32_t));
  std::memcpy(order.data(), bytes.data(), order.size() * sizeof(std::uint32_t));
  if (absl::Status s = CheckKOrder("k_order", order, k); !s.ok()) return s;
  return std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
}

void SetBlocks(const BlockScaling& blocks, v1::Quantization* wire) {
  wire->set_block_k(blocks.block_k);
  wire->set_block_lines(blocks.block_lines);
  if (blocks.is_tiled) wire->set_scale_layout(v1::SCALES_BLOCKED_128X4);
}

BlockScaling BlocksOf(const v1::Quantization& wire) {
  return {wire.block_k(), wire.block_lines() == 0 ? 1 : wire.block_lines(),
          wire.scale_layout() == v1::SCALES_BLOCKED_128X4};
}

}  // namespace gemmd::client
