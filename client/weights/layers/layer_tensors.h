// The tensors of a file by their names, of which some make layers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/order/k_order.h"
#include "client/weights/layers/layer.h"
#include "client/weights/weight_tensor.h"

namespace gemmd::client {

using TensorsByName = std::map<std::string, WeightTensor>;

// Null: there is none of that name.
inline const WeightTensor* FindTensor(const TensorsByName& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

// The beginnings of the names that end so.
std::vector<std::string> NamesBefore(const TensorsByName& tensors, absl::string_view end);

// Puts the tensor that a layer makes in the place of its planes.
void Replace(const std::vector<std::string>& planes, std::string name,
             std::vector<std::uint64_t> shape, Layer layer, TensorsByName& tensors);

// "its scales is F32 of [2, 16]; it must be F16 of [2, 16]"; empty: it is so.
std::string WhyNotOf(absl::string_view plane, const WeightTensor& tensor, absl::string_view type,
                     const std::vector<std::uint64_t>& shape);

// The order of K in which groups lie together, by g_idx, the group of each k: null where it says
// k / group_size (0: all of K). INVALID_ARGUMENT: it is no I32 of K, or other than group_size
// places, or the rest of K, have a group.
absl::StatusOr<KOrder> OrderOfGroups(const WeightTensor& g_idx, std::uint64_t k,
                                     std::uint64_t group_size);

}  // namespace gemmd::client
