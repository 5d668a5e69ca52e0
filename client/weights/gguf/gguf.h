// The header of a GGUF file, versions 2 and 3, little-endian: metadata, of which the alignment
// alone matters here, and the tensors with their places. Texts and values; no files.
//
//   "GGUF", u32 version, u64 tensors, u64 entries
//   entries:  text key, u32 type, value
//   tensors:  text name, u32 dimensions, u64 each (the fastest first), u32 type, u64 offset
//   padding to the alignment, then the data, where offsets begin
//
// A text is a u64 of bytes and these; an array a u32 of type, a u64 of elements and these.
// Source: ggml, docs/gguf.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/weights/gguf/gguf_types.h"

namespace gemmd::client {

inline constexpr std::uint64_t kMostGgufTensors = std::uint64_t{1} << 18;
inline constexpr std::uint64_t kMostGgufEntries = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kMostGgufKeyBytes = (1 << 16) - 1;  // of names too
inline constexpr std::uint32_t kMostGgufDimensions = 4;
inline constexpr int kMostGgufArrayDepth = 4;  // of arrays in arrays

struct GgufTensor {
  std::string name;
  std::uint32_t type_number = 0;
  const GgufType* type = nullptr;    // null: this version of gemmd does not know it
  std::vector<std::uint64_t> shape;  // as torch has it: the dimension that runs fastest last
  // In the file. Where the type's size is not known, both are the begin.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::uint64_t entries = 0;
  std::vector<GgufTensor> tensors;
};

// INVALID_ARGUMENT names what is wrong, its value and the limit: another version, counts and
// lengths beyond the file or the limits above, a key or a name that comes twice, a bad alignment, a
// tensor that is not whole in the file, not aligned, or overlaps another.
absl::StatusOr<GgufHeader> ParseGguf(absl::string_view file);

}  // namespace gemmd::client
