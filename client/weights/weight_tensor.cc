#include "client/weights/weight_tensor.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/weights/packed_layers.h"

namespace gemmd::client {

std::uint64_t FileBytes(const WeightTensor& tensor) {
  if (tensor.layer == nullptr) return tensor.bytes.view().size();
  const PackedLayer& layer = *tensor.layer;
  return layer.qweight.view().size() + layer.qzeros.view().size() + layer.scales.view().size() +
         layer.g_idx.view().size();
}

std::string ShapeText(const std::vector<std::uint64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace gemmd::client
