#include "server/device/cuda/in_place.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "server/device/cuda/landing.h"
#include "server/device/cuda/prepared_work.h"

namespace gemmd {
namespace {

// An operand where another process has it; whoever submits the work keeps it there.
class InPlaceOperand final : public ResidentOperand {
 public:
  InPlaceOperand(const void* data, const MatrixLayout& layout) : data_(data), layout_(layout) {}
  const void* data() const override { return data_; }
  const MatrixLayout& layout() const override { return layout_; }
  std::uint64_t size_bytes() const override { return 0; }  // of this server's

 private:
  const void* const data_;
  const MatrixLayout layout_;
};

bool IsAsLanded(const MatrixLayout& sent, const MatrixLayout& landed, const void* data) {
  constexpr std::uintptr_t kAlignment = 256;  // of what the device allocates itself
  return sent.rows == landed.rows && sent.columns == landed.columns && sent.order == landed.order &&
         sent.leading_dimension == landed.leading_dimension &&
         reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0;
}

}  // namespace

void UseInPlace(std::uint64_t panel_bytes, DeviceWork* work) {
  const HostBuffers& buffers = work->buffers;
  if (buffers.a_access != Access::kDevice && buffers.b_access != Access::kDevice) return;
  const Problem landed = LandedProblem(work->problem);
  DeviceWork in_place = *work;
  if (buffers.a_access == Access::kDevice && IsAsLanded(work->problem.a, landed.a, buffers.a)) {
    in_place.resident.a = std::make_shared<const InPlaceOperand>(buffers.a, landed.a);
    in_place.buffers.a = nullptr;
  }
  if (buffers.b_access == Access::kDevice && IsAsLanded(work->problem.b, landed.b, buffers.b)) {
    in_place.resident.b = std::make_shared<const InPlaceOperand>(buffers.b, landed.b);
    in_place.buffers.b = nullptr;
  }
  if (in_place.resident.a == work->resident.a && in_place.resident.b == work->resident.b) return;
  // Memory was reserved for copies: other panels than theirs must not need more.
  const std::uint64_t reserved = Prepare(*work, panel_bytes).block.total_bytes;
  if (Prepare(in_place, panel_bytes).block.total_bytes <= reserved) {
    *work = std::move(in_place);
  }
}

}  // namespace gemmd
