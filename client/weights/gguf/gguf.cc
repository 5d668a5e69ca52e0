#include "client/weights/gguf/gguf.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/quoted.h"

namespace gemmd::client {
namespace {

constexpr char kMagic[] = "GGUF";

// Types of metadata.
constexpr std::uint32_t kUint32 = 4;
constexpr std::uint32_t kText = 8;
constexpr std::uint32_t kArray = 9;
constexpr std::uint32_t kMetadataTypes = 13;
// The bytes of a value by its type; the fewest, where values differ.
constexpr std::uint64_t kValueBytes[kMetadataTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

absl::Status Refused(absl::string_view where, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(where, " ", why));
}

absl::Status Within(absl::string_view where, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", status.message()));
}

std::optional<std::uint64_t> Product(std::uint64_t x, std::uint64_t y) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(x, y, &product)) return std::nullopt;
  return product;
}

// Reads from the front of the file; `what` is the field's name in errors.
class Cursor {
 public:
  explicit Cursor(absl::string_view file) : file_(file) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return file_.size() - position_; }

  template <typename T>
  absl::Status Number(absl::string_view what, T& value) {
    if (left() < sizeof value) return CutOff(what, sizeof value);
    std::memcpy(&value, file_.data() + position_, sizeof value);
    position_ += sizeof value;
    return absl::OkStatus();
  }

  absl::Status Text(absl::string_view what, std::uint64_t most, absl::string_view& text) {
    std::uint64_t length = 0;
    if (absl::Status s = Number(what, length); !s.ok()) return s;
    if (length > most) {
      return Refused(what, absl::StrCat("has ", length, " bytes; at most ", most, " are accepted"));
    }
    if (length > left()) return CutOff(what, length);
    text = file_.substr(position_, length);
    position_ += length;
    return absl::OkStatus();
  }

  // REQUIRES: bytes <= left().
  void Skip(std::uint64_t bytes) { position_ += bytes; }

  absl::Status CutOff(absl::string_view what, std::uint64_t bytes) const {
    return Refused(what, absl::StrCat("takes ", bytes, " bytes from byte ", position_, " on of ",
                                      file_.size(), " that the file has"));
  }

 private:
  absl::string_view file_;
  std::uint64_t position_ = 0;
};

class Parser {
 public:
  explicit Parser(absl::string_view file) : cursor_(file), file_bytes_(file.size()) {}

  absl::StatusOr<GgufHeader> Parse() && {
    if (absl::Status s = ReadStart(); !s.ok()) return s;
    for (std::uint64_t i = 0; i < header_.entries; ++i) {
      if (absl::Status s = ReadEntry(i); !s.ok()) return s;
    }
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      if (absl::Status s = ReadTensor(i); !s.ok()) return s;
    }
    const std::uint64_t mask = header_.alignment - 1;
    const std::uint64_t data = (cursor_.position() + mask) & ~mask;
    for (GgufTensor& tensor : header_.tensors) {
      if (absl::Status s = Place(data, tensor); !s.ok()) return s;
    }
    if (absl::Status s = CheckApart(); !s.ok()) return s;
    return std::move(header_);
  }

 private:
  absl::Status ReadStart() {
    cursor_.Skip(std::min<std::uint64_t>(sizeof kMagic - 1, cursor_.left()));
    if (absl::Status s = cursor_.Number("version", header_.version); !s.ok()) return s;
    if (header_.version == __builtin_bswap32(2) || header_.version == __builtin_bswap32(3)) {
      return Refused("the file", "is big-endian; little-endian ones are read");
    }
    if (header_.version != 2 && header_.version != 3) {
      return Refused("version", absl::StrCat("is ", header_.version, "; it must be 2 or 3"));
    }
    if (absl::Status s = ReadCount("the number of tensors", kMostGgufTensors, tensor_count_);
        !s.ok()) {
      return s;
    }
    return ReadCount("the number of metadata entries", kMostGgufEntries, header_.entries);
  }

  absl::Status ReadCount(absl::string_view what, std::uint64_t most, std::uint64_t& count) {
    if (absl::Status s = cursor_.Number(what, count); !s.ok()) return s;
    if (count <= most) return absl::OkStatus();
    return Refused(what, absl::StrCat("is ", count, "; at most ", most, " are accepted"));
  }

  absl::Status ReadEntry(std::uint64_t index) {
    absl::string_view key;
    if (absl::Status s =
            cursor_.Text(absl::StrCat("the key of metadata entry ", index), kMostGgufKeyBytes, key);
        !s.ok()) {
      return s;
    }
    const std::string where = absl::StrCat("metadata ", Quoted(key));
    if (!keys_.insert(std::string(key)).second) return Refused(where, "comes twice");
    std::uint32_t type = 0;
    if (absl::Status s = cursor_.Number("its type", type); !s.ok()) return Within(where, s);
    if (key == "general.alignment") return ReadAlignment(where, type);
    if (absl::Status s = SkipValue(type, 0); !s.ok()) return Within(where, s);
    return absl::OkStatus();
  }

  absl::Status ReadAlignment(absl::string_view where, std::uint32_t type) {
    if (type != kUint32) {
      return Refused(where, absl::StrCat("has type ", type, "; it must be ", kUint32, ", uint32"));
    }
    std::uint32_t value = 0;
    if (absl::Status s = cursor_.Number("its value", value); !s.ok()) return Within(where, s);
    if (value == 0 || (value & (value - 1)) != 0) {
      return Refused(where, absl::StrCat("is ", value, "; it must be a power of two"));
    }
    header_.alignment = value;
    return absl::OkStatus();
  }

  // Recurses into arrays, kMostGgufArrayDepth deep.
  absl::Status SkipValue(std::uint32_t type, int depth) {
    if (type >= kMetadataTypes) {
      return Refused("its type",
                     absl::StrCat("is ", type, "; 0 to ", kMetadataTypes - 1, " are known"));
    }
    if (type == kText) {
      absl::string_view text;
      return cursor_.Text("its text", file_bytes_, text);
    }
    if (type == kArray) return SkipArray(depth + 1);
    if (kValueBytes[type] > cursor_.left()) return cursor_.CutOff("its value", kValueBytes[type]);
    cursor_.Skip(kValueBytes[type]);
    return absl::OkStatus();
  }

  absl::Status SkipArray(int depth) {
    if (depth > kMostGgufArrayDepth) {
      return Refused("its value", absl::StrCat("has arrays more than ", kMostGgufArrayDepth,
                                               " deep, the most that is accepted"));
    }
    std::uint32_t type = 0;
    if (absl::Status s = cursor_.Number("the type of its array", type); !s.ok()) return s;
    if (type >= kMetadataTypes) {
      return Refused("the type of its array",
                     absl::StrCat("is ", type, "; 0 to ", kMetadataTypes - 1, " are known"));
    }
    std::uint64_t count = 0;
    if (absl::Status s = cursor_.Number("the length of its array", count); !s.ok()) return s;
    // Each element takes some bytes, so that a loop over them is bounded by the file.
    if (count > cursor_.left() / kValueBytes[type]) {
      return Refused("the length of its array",
                     absl::StrCat("is ", count, "; its elements take ", kValueBytes[type],
                                  " bytes or more, and the file has ", cursor_.left(), " left"));
    }
    if (type != kText && type != kArray) {
      cursor_.Skip(count * kValueBytes[type]);
      return absl::OkStatus();
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      if (absl::Status s = SkipValue(type, depth); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status ReadTensor(std::uint64_t index) {
    absl::string_view name;
    if (absl::Status s =
            cursor_.Text(absl::StrCat("the name of tensor ", index), kMostGgufKeyBytes, name);
        !s.ok()) {
      return s;
    }
    const std::string where = absl::StrCat("tensor ", Quoted(name));
    if (!names_.insert(std::string(name)).second) return Refused(where, "comes twice");
    GgufTensor tensor;
    tensor.name = std::string(name);
    std::uint32_t dimensions = 0;
    if (absl::Status s = cursor_.Number("its number of dimensions", dimensions); !s.ok()) {
      return Within(where, s);
    }
    if (dimensions > kMostGgufDimensions) {
      return Refused(where, absl::StrCat("has ", dimensions, " dimensions; at most ",
                                         kMostGgufDimensions, " are accepted"));
    }
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      std::uint64_t size = 0;
      if (absl::Status s = cursor_.Number("a dimension", size); !s.ok()) return Within(where, s);
      tensor.shape.push_back(size);
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    if (absl::Status s = cursor_.Number("its type", tensor.type_number); !s.ok()) {
      return Within(where, s);
    }
    tensor.type = FindGgufType(tensor.type_number);
    // An offset in the data, which begin behind the last tensor: Place() makes a place of it.
    if (absl::Status s = cursor_.Number("its offset", tensor.begin); !s.ok()) {
      return Within(where, s);
    }
    header_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  // The bytes of a tensor whose type has a size; none where they are 2^64 or more.
  static std::optional<std::uint64_t> SizeOf(const GgufTensor& tensor) {
    const std::uint64_t fastest = tensor.shape.empty() ? 1 : tensor.shape.back();
    std::optional<std::uint64_t> size =
        Product(fastest / tensor.type->block_elements, tensor.type->block_bytes);
    for (std::size_t i = 0; size && i + 1 < tensor.shape.size(); ++i) {
      size = Product(*size, tensor.shape[i]);
    }
    return size;
  }

  // Turns the offset into the place.
  absl::Status Place(std::uint64_t data, GgufTensor& tensor) const {
    const std::string where = absl::StrCat("tensor ", Quoted(tensor.name));
    const std::uint64_t offset = tensor.begin;
    if (offset % header_.alignment != 0) {
      return Refused(where, absl::StrCat("has offset ", offset, ", no multiple of the alignment, ",
                                         header_.alignment));
    }
    std::uint64_t size = 0;
    if (tensor.type != nullptr && tensor.type->block_bytes != 0) {
      const std::uint64_t fastest = tensor.shape.empty() ? 1 : tensor.shape.back();
      if (fastest % tensor.type->block_elements != 0) {
        return Refused(
            where, absl::StrCat("has lines of ", fastest, " elements; those of ", tensor.type->name,
                                " are multiples of ", tensor.type->block_elements));
      }
      const std::optional<std::uint64_t> known = SizeOf(tensor);
      if (!known) {
        return Refused(where, absl::StrCat("has shape [", absl::StrJoin(tensor.shape, ", "),
                                           "], which is 2^64 bytes or more"));
      }
      size = *known;
    }
    // The file may end with its header where no tensor has bytes.
    const std::uint64_t room = data > file_bytes_ ? 0 : file_bytes_ - data;
    if (offset > room || size > room - offset) {
      return Refused(where, absl::StrCat("has ", size, " bytes at offset ", offset,
                                         "; the file has ", room, " bytes of data"));
    }
    tensor.begin = std::min(data + offset, file_bytes_);
    tensor.end = tensor.begin + size;
    return absl::OkStatus();
  }

  absl::Status CheckApart() const {
    std::vector<const GgufTensor*> sorted;
    for (const GgufTensor& tensor : header_.tensors) {
      if (tensor.begin != tensor.end) sorted.push_back(&tensor);
    }
    std::sort(sorted.begin(), sorted.end(),
              [](const GgufTensor* x, const GgufTensor* y) { return x->begin < y->begin; });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i]->begin >= sorted[i - 1]->end) continue;
      return Refused(absl::StrCat("tensor ", Quoted(sorted[i]->name)),
                     absl::StrCat("begins at byte ", sorted[i]->begin, ", within tensor ",
                                  Quoted(sorted[i - 1]->name)));
    }
    return absl::OkStatus();
  }

  Cursor cursor_;
  const std::uint64_t file_bytes_;
  GgufHeader header_;
  std::uint64_t tensor_count_ = 0;
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::string> names_;
};

}  // namespace

absl::StatusOr<GgufHeader> ParseGguf(absl::string_view file) {
  if (file.substr(0, sizeof kMagic - 1) != kMagic) {
    return absl::InvalidArgumentError(absl::StrCat("the file begins with ",
                                                   Quoted(file.substr(0, sizeof kMagic - 1)),
                                                   "; GGUF files begin with \"GGUF\""));
  }
  return Parser(file).Parse();
}

}  // namespace gemmd::client
