#include "client/shared_matmul.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "client/bytes.h"
#include "client/matmul_header.h"
#include "client/operand_source.h"

namespace gemmd::client {
namespace {

void SetOperand(const SharedOperand& operand, v1::Operand* wire) {
  SetPlane(operand.data, wire->mutable_data());
  if (operand.scales) SetPlane(*operand.scales, wire->mutable_scales());
  *wire->mutable_shared() = operand.place.region->At(operand.place.offset_bytes);
}

// From the place to its region's end.
Bytes BytesAt(const SharedPlace& place) {
  const SharedRegion& region = *place.region;
  const std::uint64_t offset = std::min(place.offset_bytes, region.size_bytes());
  return {place.region, absl::string_view(region.data() + offset, region.size_bytes() - offset)};
}

}  // namespace

std::shared_ptr<const EncodedMatmul> Encode(const SharedInputs& inputs,
                                            const MatmulOptions& options) {
  const auto request = std::make_shared<EncodedMatmul>();
  request->expected = Expect(inputs.a.data, inputs.b.data, options);
  request->expected.shared = BytesAt(inputs.d);
  v1::MatmulHeader& header = request->header;
  SetHeader(options, header);
  SetOperand(inputs.a, header.mutable_a());
  SetOperand(inputs.b, header.mutable_b());
  if (inputs.c) SetOperand(*inputs.c, header.mutable_c());
  if (inputs.bias) SetOperand(*inputs.bias, header.mutable_bias());
  *header.mutable_output() = inputs.d.region->At(inputs.d.offset_bytes);
  return request;
}

}  // namespace gemmd::client
