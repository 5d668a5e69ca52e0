// The tensors of a file by their names, of which some make layers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/weights/layer.h"
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

// Why g_idx, the group of each k, does not say k / group_size; empty: it does. 0: all of K.
std::string WhyNotInOrder(const WeightTensor& g_idx, std::uint64_t k, std::uint64_t group_size);

}  // namespace gemmd::client
