#include "client/weights/gguf/gguf_blocks.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/process/cpu_share.h"
#include "base/sync/thread_loop.h"
#include "client/bytes.h"
#include "client/weights/gguf/gguf_decoders.h"

namespace gemmd::client {

absl::StatusOr<QuantizedArray> DecodeGgufBlocks(const GgufType& type, std::uint64_t lines,
                                                std::uint64_t k, absl::string_view bytes) {
  QuantizedArray array;
  array.format_name = std::string(type.format);
  array.format = *FindQuantFormat(type.format);
  array.rows = lines;
  array.columns = k;
  array.k_axis = KAxis::kColumns;

  // K is whole blocks, and they are whole ones of the format: all planes follow each other.
  const Scaling& scaling = array.format.scaling;
  const std::uint64_t elements = type.block_elements;
  const std::uint64_t blocks_of_line = k / elements;
  const std::uint64_t blocks = lines * blocks_of_line;
  const std::uint64_t codes_of_block =
      elements * static_cast<std::uint64_t>(SizeBits(array.format.element)) / 8;
  const std::uint64_t places_of_block = elements / scaling.block_k;
  const std::uint64_t scales_of_block =
      places_of_block * static_cast<std::uint64_t>(SizeBits(scaling.type)) / 8;
  const std::uint64_t offsets_of_block = scaling.has_offsets ? scales_of_block : 0;
  Buffer codes = Buffer::Allocate(blocks * codes_of_block);
  Buffer scales = Buffer::Allocate(blocks * scales_of_block);
  Buffer offsets = Buffer::Allocate(blocks * offsets_of_block);
  const auto at = [](const Buffer& buffer, std::uint64_t offset) {
    return reinterpret_cast<gguf::Byte*>(buffer.data()) + offset;
  };

  constexpr std::uint64_t kPart = 1 << 16;  // less takes about as long as to start a thread
  const std::uint64_t count = (blocks + kPart - 1) / kPart;
  std::vector<absl::Status> ends(count);
  const gguf::Decode decode = gguf::DecoderOf(type.name);
  ForEachOnThreads(count, static_cast<std::size_t>(UsableCpus()), [&](std::size_t part) {
    const std::uint64_t last = std::min(blocks, (part + 1) * kPart);
    for (std::uint64_t i = part * kPart; i < last; ++i) {
      const auto* block = reinterpret_cast<const gguf::Byte*>(bytes.data()) + i * type.block_bytes;
      const gguf::Refusal refusal =
          decode(block, {at(codes, i * codes_of_block), at(scales, i * scales_of_block),
                         at(offsets, i * offsets_of_block)});
      if (!refusal) continue;
      const std::uint64_t first = i % blocks_of_line * elements;
      ends[part] = absl::InvalidArgumentError(
          absl::StrCat("the block of row ", i / blocks_of_line, ", columns ", first, " to ",
                       first + elements - 1, " has no form in ", type.format, ": ", *refusal));
      return;
    }
  });
  for (absl::Status& end : ends) {
    if (!end.ok()) return std::move(end);
  }
  array.codes = std::move(codes).Freeze(blocks * codes_of_block);
  array.scales = std::move(scales).Freeze(blocks * scales_of_block);
  array.offsets = std::move(offsets).Freeze(blocks * offsets_of_block);
  return array;
}

}  // namespace gemmd::client
