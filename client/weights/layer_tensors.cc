#include "client/weights/layer_tensors.h"

#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gemmd::client {

std::vector<std::string> NamesBefore(const TensorsByName& tensors, absl::string_view end) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (absl::EndsWith(name, end)) names.push_back(name.substr(0, name.size() - end.size()));
  }
  return names;
}

void Replace(const std::vector<std::string>& planes, std::string name,
             std::vector<std::uint64_t> shape, Layer layer, TensorsByName& tensors) {
  WeightTensor made;
  made.name = std::move(name);
  made.type = layer.type;
  made.shape = std::move(shape);
  layer.file_bytes = 0;
  for (const std::string& plane : planes) {
    const auto found = tensors.find(plane);
    if (found == tensors.end()) continue;
    layer.file_bytes += FileBytes(found->second);
    tensors.erase(found);
  }
  made.layer = std::make_shared<const Layer>(std::move(layer));
  tensors.emplace(made.name, std::move(made));
}

std::string WhyNotOf(absl::string_view plane, const WeightTensor& tensor, absl::string_view type,
                     const std::vector<std::uint64_t>& shape) {
  if (tensor.type == type && tensor.shape == shape) return "";
  return absl::StrCat("its ", plane, " is ", tensor.type, " of ", ShapeText(tensor.shape),
                      "; it must be ", type, " of ", ShapeText(shape));
}

std::string WhyNotInOrder(const WeightTensor& g_idx, std::uint64_t k, std::uint64_t group_size) {
  std::string why = WhyNotOf("g_idx", g_idx, "I32", {k});
  for (std::uint64_t i = 0; why.empty() && i < k; ++i) {
    std::int32_t group = 0;
    std::memcpy(&group, g_idx.bytes.view().data() + i * sizeof group, sizeof group);
    const std::uint64_t expected = group_size == 0 ? 0 : i / group_size;
    if (group >= 0 && static_cast<std::uint64_t>(group) == expected) continue;
    why = absl::StrCat("its g_idx has the group ", group, " for k = ", i, ", not ", expected,
                       ": its groups (act-order) are no runs of K; quantized without desc_act it "
                       "has a form");
  }
  return why;
}

}  // namespace gemmd::client
