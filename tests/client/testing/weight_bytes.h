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

// An ONNX model, by protobuf's wire format.
class OnnxBytes {
 public:
  static std::string Varint(std::uint64_t value) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7f));
    return bytes + static_cast<char>(value);
  }
  static std::string Number(std::uint64_t field, std::uint64_t value) {
    return Varint(field << 3) + Varint(value);
  }
  static std::string Field(std::uint64_t field, absl::string_view bytes) {
    return absl::StrCat(Varint(field << 3 | 2), Varint(bytes.size()), bytes);
  }

  // A TensorProto up to its values.
  static std::string Header(absl::string_view name, std::uint64_t type,
                            const std::vector<std::uint64_t>& dims) {
    std::string packed;
    for (const std::uint64_t each : dims) packed += Varint(each);
    return Field(1, packed) + Number(2, type) + Field(8, name);
  }
  static std::string Raw(absl::string_view name, std::uint64_t type,
                         const std::vector<std::uint64_t>& dims, absl::string_view bytes) {
    return Header(name, type, dims) + Field(9, bytes);
  }
  static std::string Entry(absl::string_view key, absl::string_view value) {
    return Field(13, Field(1, key) + Field(2, value));
  }
  static std::string External(absl::string_view name, std::uint64_t type,
                              const std::vector<std::uint64_t>& dims, absl::string_view location,
                              absl::string_view offset, absl::string_view length) {
    return Header(name, type, dims) + Entry("location", location) + Entry("offset", offset) +
           Entry("length", length) + Number(14, 1);
  }

  static std::string Integer(absl::string_view name, std::int64_t value) {
    return Field(5, Field(1, name) + Number(3, static_cast<std::uint64_t>(value)) + Number(20, 2));
  }
  // A NodeProto, of attributes that are made so.
  static std::string Node(absl::string_view type, const std::vector<std::string>& inputs,
                          absl::string_view output, absl::string_view attributes = "") {
    std::string node;
    for (const std::string& each : inputs) node += Field(1, each);
    return absl::StrCat(node, Field(2, output), Field(4, type), attributes);
  }

  OnnxBytes& Tensor(absl::string_view tensor) {
    graph_ += Field(5, tensor);
    return *this;
  }
  OnnxBytes& AddNode(absl::string_view node) {
    graph_ += Field(1, node);
    return *this;
  }
  OnnxBytes& GraphField(absl::string_view bytes) {
    absl::StrAppend(&graph_, bytes);
    return *this;
  }

  const std::string& graph() const { return graph_; }
  std::string Bytes() const { return ModelOf(Field(7, graph_)); }
  static std::string ModelOf(absl::string_view fields) {
    return absl::StrCat(Number(1, 10), Field(2, "test"), fields, Field(8, Number(2, 21)));
  }

 private:
  std::string graph_;
};

}  // namespace gemmd::testing
