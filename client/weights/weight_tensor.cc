#include "client/weights/weight_tensor.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/file.h"
#include "client/weights/layers/layer.h"

namespace gemmd::client {

WeightTensor MatrixOf(const WeightTensor& stack, std::uint64_t index) {
  WeightTensor matrix = stack;
  matrix.name = absl::StrCat(stack.name, "[", index, "]");
  matrix.shape.erase(matrix.shape.begin());
  if (stack.layer != nullptr) {
    matrix.layer = std::make_shared<const Layer>(PartOf(*stack.layer, index));
    return matrix;
  }
  const std::uint64_t bytes = stack.bytes.view().size() / stack.shape[0];
  matrix.bytes = stack.bytes.Part(stack.bytes.view().substr(index * bytes, bytes));
  return matrix;
}

std::uint64_t FileBytes(const WeightTensor& tensor) {
  return tensor.layer == nullptr ? tensor.bytes.view().size() : tensor.layer->file_bytes;
}

void ReleasePages(const WeightTensor& tensor) {
  ReleasePages(tensor.bytes);
  if (tensor.layer == nullptr) return;
  for (const Plane* plane : PlanesOf(*tensor.layer)) ReleasePages(plane->bytes);
}

std::string ShapeText(const std::vector<std::uint64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace gemmd::client
