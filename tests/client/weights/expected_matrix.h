// Tensors, and the matrix of one against the values that it should have.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/quantized/quantized_array.h"
#include "client/weights/weight_form.h"
#include "gtest/gtest.h"

namespace gemmd::client {

using Value = std::function<double(std::uint64_t n, std::uint64_t k)>;

inline WeightTensor Tensor(const std::string& name, const std::string& type,
                           std::vector<std::uint64_t> shape, std::string bytes) {
  return {name, false, type, std::move(shape), Bytes(std::move(bytes)), nullptr};
}

// Bytes of which all bits vary, without `excluded`.
inline std::string RandomBytes(std::uint64_t count, std::uint32_t seed,
                               const std::string& excluded = "") {
  std::mt19937 random(seed);
  std::string bytes;
  while (bytes.size() < count) {
    const char byte = static_cast<char>(random());
    if (excluded.find(byte) == std::string::npos) bytes += byte;
  }
  return bytes;
}

// Expects that the tensor's form is the quantized format, that it has the size that was said, and
// that a server takes it and finds each value, where its order of K says.
inline void ExpectMatrix(const WeightTensor& tensor, const std::string& format,
                         const Value& value) {
  const auto form = FormOf(tensor);
  ASSERT_TRUE(form.ok()) << form.status();
  EXPECT_EQ(form->name, format);
  const auto operand = OperandOf(tensor);
  ASSERT_TRUE(operand.ok()) << operand.status();
  const auto& array = std::get<QuantizedArray>(*operand);
  const auto sent = ToOperand(array, Side::kA);
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_EQ(sent->size_bytes(), form->size_bytes);
  const QuantizedView view = array.view();
  for (std::uint64_t n = 0; n < form->rows; ++n) {
    for (std::uint64_t k = 0; k < form->columns; ++k) {
      const auto line = static_cast<std::int64_t>(n);
      const auto element = static_cast<std::int64_t>(k);
      const std::uint64_t place = array.k_order == nullptr ? k : array.k_order->at(k);
      ASSERT_EQ(view.value(line, element), value(n, place)) << format << " " << n << ", " << k;
      if (view.format.scaling.type != DataType::kFp8E4M3) continue;
      ASSERT_GE(view.block_scale(line, element), 0);
    }
  }
}

}  // namespace gemmd::client
