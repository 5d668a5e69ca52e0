#include "base/order/k_order.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// Each line by itself: its elements lie together.
template <typename Element>
void OrderLines(const std::vector<std::uint32_t>& order, const KLines& matrix) {
  std::vector<Element> line(order.size());
  const std::size_t bytes = order.size() * sizeof(Element);
  for (std::size_t i = 0; i < matrix.lines; ++i) {
    char* const at = matrix.data + i * matrix.line_step;
    for (std::size_t k = 0; k < order.size(); ++k) {
      std::memcpy(&line[k], at + order[k] * sizeof(Element), sizeof(Element));
    }
    std::memcpy(at, line.data(), bytes);
  }
}

// Rows, one for each element of K, go around the order's cycles.
void OrderRows(const std::vector<std::uint32_t>& order, const KLines& matrix) {
  const std::size_t bytes = matrix.lines * matrix.element_bytes;
  const auto row = [&matrix](std::size_t k) { return matrix.data + k * matrix.k_step; };
  std::vector<char> first(bytes);
  std::vector<bool> is_done(order.size());
  for (std::size_t begin = 0; begin < order.size(); ++begin) {
    if (is_done[begin] || order[begin] == begin) continue;
    std::memcpy(first.data(), row(begin), bytes);
    std::size_t k = begin;
    for (; order[k] != begin; k = order[k]) {
      std::memcpy(row(k), row(order[k]), bytes);
      is_done[k] = true;
    }
    std::memcpy(row(k), first.data(), bytes);
    is_done[k] = true;
  }
}

}  // namespace

absl::Status CheckKOrder(absl::string_view field, const std::vector<std::uint32_t>& order,
                         std::uint64_t k) {
  if (order.size() != k) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", order.size(), " entries; it must have K, ", k));
  }
  std::vector<bool> is_there(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] >= k) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, "[", i, "] is ", order[i], "; it must be less than K, ", k));
    }
    if (is_there[order[i]]) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, "[", i, "] is ", order[i], ", which came before; each place of K comes once"));
    }
    is_there[order[i]] = true;
  }
  return absl::OkStatus();
}

bool AreEqual(const KOrder& x, const KOrder& y) {
  if (x == nullptr || y == nullptr) return x == y;
  return *x == *y;
}

void PutInOrder(const std::vector<std::uint32_t>& order, const KLines& matrix) {
  if (matrix.k_step != matrix.element_bytes) return OrderRows(order, matrix);
  switch (matrix.element_bytes) {
    case 1:
      return OrderLines<std::uint8_t>(order, matrix);
    case 2:
      return OrderLines<std::uint16_t>(order, matrix);
    case 4:
      return OrderLines<std::uint32_t>(order, matrix);
    default:
      return OrderLines<std::uint64_t>(order, matrix);
  }
}

}  // namespace gemmd
