// Whatever a container says, planes that are taken have the bytes of their format, and together
// all that there are. The first two bytes are the number of data bytes, the rest is the header.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "client/quantized/quantized_file.h"

namespace {

std::uint64_t BytesOf(const gemmd::client::SafetensorsTensor& tensor, std::uint64_t data_bytes) {
  if (tensor.begin > tensor.end || tensor.end > data_bytes) std::abort();
  return tensor.end - tensor.begin;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint64_t data_bytes = data[0] + std::uint64_t{256} * data[1];
  const absl::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const absl::StatusOr<gemmd::client::QuantizedLayout> layout =
      gemmd::client::ParseQuantizedHeader(text, data_bytes);
  if (!layout.ok()) {
    if (layout.status().message().empty() || layout.status().message().size() > 2000) std::abort();
    return 0;
  }
  const gemmd::client::QuantizedArray& array = layout->array;
  const gemmd::Scaling& scaling = array.format.scaling;
  const auto lines = static_cast<std::int64_t>(array.lines());
  const auto k = static_cast<std::int64_t>(array.k());
  if (lines < 1 || k < 1) std::abort();
  const std::uint64_t codes = BytesOf(layout->codes, data_bytes);
  const std::uint64_t scales = BytesOf(layout->scales, data_bytes);
  const std::uint64_t zero_points = BytesOf(layout->zero_points, data_bytes);
  const std::uint64_t tensor_scale = BytesOf(layout->tensor_scale, data_bytes);
  const std::uint64_t offsets = BytesOf(layout->offsets, data_bytes);
  const auto count = static_cast<std::uint64_t>(scaling.count(lines, k));
  const auto bits = static_cast<std::uint64_t>(gemmd::SizeBits(array.format.element));
  if (codes != (static_cast<std::uint64_t>(lines * k) * bits + 7) / 8) std::abort();
  if (scales != count * static_cast<std::uint64_t>(gemmd::SizeBits(scaling.type)) / 8) std::abort();
  if (zero_points != (scaling.has_zero_points ? count : 0)) std::abort();
  if (tensor_scale != (scaling.has_tensor_scale ? sizeof(float) : 0)) std::abort();
  if (offsets != (scaling.has_offsets ? scales : 0)) std::abort();
  if (codes + scales + zero_points + tensor_scale + offsets != data_bytes) std::abort();
  return 0;
}
