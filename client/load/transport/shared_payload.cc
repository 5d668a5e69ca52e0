#include "client/load/transport/shared_payload.h"

#include <cstring>
#include <utility>

#include "base/math.h"
#include "client/matrix.h"
#include "client/shared_region.h"

namespace gemmd::load {
namespace {

// Rounds up to an offset at which a plane may begin: any device copies from there without slowing
// down.
std::uint64_t Aligned(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 4096;
  return RoundUp(bytes, kAlignment);
}

// Copies its planes there, one after another, as SharedOperand says.
client::SharedOperand Place(const client::InlineOperand& operand,
                            const std::shared_ptr<client::SharedRegion>& region,
                            std::uint64_t offset) {
  client::SharedOperand shared{client::PlaceIn(region, offset), operand.data.format()};
  for (const v1::PlaneName name : client::kPlaneNames) {
    const client::Matrix* const plane = operand.plane(name);
    if (plane == nullptr) continue;
    std::memcpy(region->data() + offset, plane->bytes().data(), plane->bytes().size());
    offset += plane->bytes().size();
  }
  if (operand.scales) shared.scales = operand.scales->format();
  if (operand.zero_points) shared.zero_points = operand.zero_points->format();
  if (operand.tensor_scale) shared.tensor_scale = operand.tensor_scale->format();
  if (operand.offsets) shared.offsets = operand.offsets->format();
  shared.blocks = operand.blocks;
  return shared;
}

}  // namespace

absl::StatusOr<SharedPayload> Share(const std::shared_ptr<grpc::Channel>& channel,
                                    const client::InlineOperand& a, const client::InlineOperand& b,
                                    client::MatmulOptions options, DataType output) {
  const client::MatrixFormat d{output, a.data.format().rows, b.data.format().columns};
  const absl::StatusOr<std::uint64_t> d_bytes = client::SizeBytes(d);
  if (!d_bytes.ok()) return d_bytes.status();
  const std::uint64_t b_offset = Aligned(a.size_bytes());
  const std::uint64_t d_offset = b_offset + Aligned(b.size_bytes());
  absl::StatusOr<std::unique_ptr<client::SharedRegion>> created =
      client::SharedRegion::Create(channel, d_offset + *d_bytes);
  if (!created.ok()) return created.status();
  const std::shared_ptr<client::SharedRegion> region = *std::move(created);
  options.destination = client::PlaceIn(region, d_offset);
  client::MatmulInputs inputs{Place(a, region, 0), Place(b, region, b_offset)};
  return SharedPayload{client::Encode(std::move(inputs), options), region->data() + d_offset,
                       *d_bytes};
}

}  // namespace gemmd::load
