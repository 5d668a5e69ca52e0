#include "client/weights/layers/layer_tensors.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"

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

absl::StatusOr<KOrder> OrderOfGroups(const WeightTensor& g_idx, std::uint64_t k,
                                     std::uint64_t group_size) {
  const std::string why = WhyNotOf("g_idx", g_idx, "I32", {k});
  if (!why.empty()) return absl::InvalidArgumentError(why);
  if (group_size == 0) group_size = k;
  const std::uint64_t groups = CeilOfRatio(k, group_size);
  std::vector<std::uint32_t> order(k);
  std::vector<std::uint64_t> found(groups);  // places of each group
  bool is_in_order = true;
  for (std::uint64_t i = 0; i < k; ++i) {
    std::int32_t group = 0;
    std::memcpy(&group, g_idx.bytes.view().data() + i * sizeof group, sizeof group);
    const auto of = static_cast<std::uint64_t>(group);
    if (group < 0 || of >= groups) {
      return absl::InvalidArgumentError(
          absl::StrCat("its g_idx has the group ", group, " for k = ", i, "; there are ", groups));
    }
    const std::uint64_t size = std::min(group_size, k - of * group_size);
    if (found[of] == size) {
      return absl::InvalidArgumentError(
          absl::StrCat("its g_idx has the group ", group, " for k = ", i, " and ", size,
                       " before; each group has ", group_size, ", the last one the rest of K"));
    }
    is_in_order = is_in_order && of == i / group_size;
    order[of * group_size + found[of]++] = static_cast<std::uint32_t>(i);
  }
  if (is_in_order) return KOrder();
  return std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
}

}  // namespace gemmd::client
