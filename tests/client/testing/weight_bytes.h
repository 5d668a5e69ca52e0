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

// An archive of .npy files, as np.savez writes it.
class NpzBytes {
 public:
  struct How {
    std::uint16_t flags = 0;
    std::uint16_t method = 0;
    bool is_64 = false;  // sizes and places are in extra fields
    std::uint64_t offset_more = 0;
    std::uint64_t size_more = 0;
  };

  NpzBytes& Member(const std::string& name, const std::string& bytes) {
    return Member(name, bytes, How());
  }
  NpzBytes& Member(const std::string& name, const std::string& bytes, const How& how) {
    const std::uint64_t offset = locals_.size() + how.offset_more;
    const std::uint64_t size = bytes.size() + how.size_more;
    const auto small = [&how](std::uint64_t value) { return how.is_64 ? 0xffffffff : value; };
    const std::string sizes = Little(small(size), 4) + Little(small(size), 4);
    const std::string extra_of_others = Little(7, 2) + Little(2, 2) + "??";
    const std::string local_extra =
        how.is_64 ? Little(1, 2) + Little(16, 2) + Little(size, 8) + Little(size, 8) : "";
    const std::string extra = how.is_64 ? extra_of_others + Little(1, 2) + Little(24, 2) +
                                              Little(size, 8) + Little(size, 8) + Little(offset, 8)
                                        : "";
    locals_ += Little(0x04034b50, 4) + Little(45, 2) + Little(how.flags, 2) +
               Little(how.method, 2) + Little(0, 8) + sizes + Little(name.size(), 2) +
               Little(local_extra.size(), 2) + name + local_extra + bytes;
    directory_ += Little(0x02014b50, 4) + Little(45, 4) + Little(how.flags, 2) +
                  Little(how.method, 2) + Little(0, 8) + sizes + Little(name.size(), 2) +
                  Little(extra.size(), 2) + Little(0, 2) + Little(0, 8) + Little(small(offset), 4) +
                  name + extra;
    ++members_;
    return *this;
  }

  std::string Bytes(const std::string& comment = "") const {
    return locals_ + directory_ + End(comment);
  }
  // With an end record of 64 bits, where the other says nothing.
  std::string Bytes64() const {
    const std::uint64_t end = locals_.size() + directory_.size();
    return locals_ + directory_ + Little(0x06064b50, 4) + Little(44, 8) + Little(45, 4) +
           Little(0, 8) + Little(members_, 8) + Little(members_, 8) + Little(directory_.size(), 8) +
           Little(locals_.size(), 8) + Little(0x07064b50, 4) + Little(0, 4) + Little(end, 8) +
           Little(1, 4) + Little(0x06054b50, 4) + Little(0, 4) + Little(~0ULL, 8) +
           Little(~0ULL, 4) + Little(0, 2);
  }

 private:
  std::string End(const std::string& comment) const {
    return Little(0x06054b50, 4) + Little(0, 4) + Little(members_, 2) + Little(members_, 2) +
           Little(directory_.size(), 4) + Little(locals_.size(), 4) + Little(comment.size(), 2) +
           comment;
  }

  std::uint64_t members_ = 0;
  std::string locals_;
  std::string directory_;
};

}  // namespace gemmd::testing
