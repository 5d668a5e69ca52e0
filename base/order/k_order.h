// The order of K in an operand whose blocks along K are of columns that do not lie together, as
// GPTQ's act-order makes them: place i of K, as it is stored, is place order[i] of the product. So
// the other operand is put in the same order before both are multiplied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd {

// A permutation of 0 to K - 1. Null: K is stored in the order of the product.
using KOrder = std::shared_ptr<const std::vector<std::uint32_t>>;

// INVALID_ARGUMENT, naming the field: it has other than K entries, or the first that is K or more,
// or that came before.
absl::Status CheckKOrder(absl::string_view field, const std::vector<std::uint32_t>& order,
                         std::uint64_t k);

bool AreEqual(const KOrder& x, const KOrder& y);

// A matrix of elements of 1, 2, 4 or 8 bytes, as lines of K.
struct KLines {
  char* data = nullptr;
  std::size_t element_bytes = 1;
  std::size_t lines = 0;
  std::size_t line_step = 0;  // bytes from a line to the next
  std::size_t k_step = 0;     // and from an element of a line to the next
};

// Moves element order[i] of each line to place i. Takes the time of one copy of the matrix, and
// memory for one line of it, or one element of each line where those lie together.
// REQUIRES: CheckKOrder() of its K is OK.
void PutInOrder(const std::vector<std::uint32_t>& order, const KLines& matrix);

}  // namespace gemmd
