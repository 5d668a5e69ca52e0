#include "server/device/cuda/launches/in_place.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "server/device/cuda/launches/prepared_work.h"
#include "server/device/cuda/planes/landing.h"

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

void UseInPlace(std::uint64_t panel_bytes, const PartCutter& cutter, DeviceWork* work) {
  const HostBuffers& buffers = work->buffers;
  const Problem landed = LandedProblem(work->problem);
  DeviceWork in_place = *work;
  bool has_any = false;
  for (const WorkPlane plane : {WorkPlane::kA, WorkPlane::kB}) {
    const MatrixLayout layout = PlaneOf(landed, plane);
    if (buffers.access[plane] != Access::kDevice ||
        !IsAsLanded(PlaneOf(work->problem, plane), layout, buffers[plane])) {
      continue;
    }
    in_place.resident[plane] = std::make_shared<const InPlaceOperand>(buffers[plane], layout);
    in_place.buffers[plane] = nullptr;
    has_any = true;
  }
  if (!has_any) return;
  // Memory was reserved for copies: other panels than theirs must not need more.
  const PreparedWork copied = Prepare(*work, panel_bytes);
  // It may go in parts, of which less was reserved.
  if (cutter.MayCut(copied)) return;
  if (Prepare(in_place, panel_bytes).block.total_bytes <= copied.block.total_bytes) {
    *work = std::move(in_place);
  }
}

}  // namespace gemmd
