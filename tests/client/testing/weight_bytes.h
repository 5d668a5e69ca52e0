// Files of weights as bytes, well-formed and otherwise: written here from the formats' own
// descriptions, with nothing of the reader.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gemmd::testing {

// The last bytes of a number, lowest first.
inline std::string Little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

// A safetensors file of that header.
inline std::string SafetensorsOf(absl::string_view json, absl::string_view data) {
  return absl::StrCat(Little(json.size(), 8), json, data);
}

struct SafetensorsPart {
  std::string name;
  std::string dtype;
  std::string shape;  // "[2,3]"
  std::string bytes;
};

inline std::string SafetensorsBytes(const std::vector<SafetensorsPart>& parts,
                                    const std::string& metadata = "{\"format\":\"pt\"}") {
  std::string json = "{\"__metadata__\":" + metadata;
  std::string data;
  for (const SafetensorsPart& part : parts) {
    const std::size_t begin = data.size();
    data += part.bytes;
    absl::StrAppend(&json, ",\"", part.name, "\":{\"dtype\":\"", part.dtype,
                    "\",\"shape\":", part.shape, ",\"data_offsets\":[", begin, ",", data.size(),
                    "]}");
  }
  return SafetensorsOf(json + "}", data);
}

// A GGUF file, of entries and tensors in the order in which they are added.
class GgufBytes {
 public:
  explicit GgufBytes(std::uint32_t version = 3) : version_(version) {}

  static std::string Text(absl::string_view text) {
    return absl::StrCat(Little(text.size(), 8), text);
  }
  static std::string Array(std::uint32_t type, std::uint64_t count, absl::string_view elements) {
    return absl::StrCat(Little(type, 4), Little(count, 8), elements);
  }

  GgufBytes& Entry(absl::string_view key, std::uint32_t type, absl::string_view value) {
    absl::StrAppend(&entries_, Text(key), Little(type, 4), value);
    ++entry_count_;
    return *this;
  }
  GgufBytes& Alignment(std::uint32_t alignment) {
    alignment_ = alignment;
    return Entry("general.alignment", 4, Little(alignment, 4));
  }
  // Sizes as the file has them, the fastest first. The offset is that of the data so far.
  GgufBytes& Tensor(absl::string_view name, const std::vector<std::uint64_t>& sizes,
                    std::uint32_t type, absl::string_view bytes) {
    while (data_.size() % alignment_ != 0) data_ += '\0';
    AddInfo(name, sizes, type, data_.size());
    absl::StrAppend(&data_, bytes);
    return *this;
  }
  GgufBytes& AddInfo(absl::string_view name, const std::vector<std::uint64_t>& sizes,
                     std::uint32_t type, std::uint64_t offset) {
    absl::StrAppend(&infos_, Text(name), Little(sizes.size(), 4));
    for (const std::uint64_t size : sizes) infos_ += Little(size, 8);
    absl::StrAppend(&infos_, Little(type, 4), Little(offset, 8));
    ++tensor_count_;
    return *this;
  }

  std::string Bytes() const { return Bytes(tensor_count_, entry_count_); }
  // With counts that are not so.
  std::string Bytes(std::uint64_t tensors, std::uint64_t entries) const {
    std::string file = absl::StrCat("GGUF", Little(version_, 4), Little(tensors, 8),
                                    Little(entries, 8), entries_, infos_);
    while (file.size() % alignment_ != 0) file += '\0';
    return file + data_;
  }

 private:
  const std::uint32_t version_;
  std::uint32_t alignment_ = 32;
  std::uint64_t entry_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::string entries_;
  std::string infos_;
  std::string data_;
};

}  // namespace gemmd::testing
