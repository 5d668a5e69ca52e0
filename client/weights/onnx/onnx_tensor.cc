#include "client/weights/onnx/onnx_tensor.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text/quoted.h"
#include "client/weights/layers/layer.h"
#include "client/weights/onnx/onnx_types.h"
#include "client/weights/onnx/proto_wire.h"

namespace gemmd::client {
namespace {

constexpr std::uint64_t kFloatData = 4;
constexpr std::uint64_t kDoubleData = 10;
constexpr std::uint64_t kExternal = 1;

absl::Status Refused(absl::string_view where, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(where, " ", why));
}

// One of the fields that hold values by their type, and how often it came.
struct Typed {
  absl::string_view packed;
  std::size_t pieces = 0;
};

// The bytes of that many elements; none where they are 2^61 or more.
std::optional<std::uint64_t> SizeOf(int bits, const std::vector<std::uint64_t>& shape) {
  auto size = static_cast<std::uint64_t>(bits);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return std::uint64_t{0};
  for (const std::uint64_t dimension : shape) {
    if (__builtin_mul_overflow(size, dimension, &size)) return std::nullopt;
  }
  return size / 8 + (size % 8 != 0 ? 1 : 0);
}

// Other paths lead out of the folder.
bool IsWithinFolder(absl::string_view location) {
  // In a model's own folder that has no name, "-" would be standard input.
  if (location.find('\0') != absl::string_view::npos || location == "-") return false;
  for (const absl::string_view part : absl::StrSplit(location, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

}  // namespace

struct OnnxTensorReader::Fields {
  std::string name;
  std::uint64_t type = 0;
  std::vector<std::uint64_t> shape;
  std::optional<absl::string_view> raw;
  std::map<std::uint64_t, Typed> typed;  // by number
  bool is_segment = false;
  std::uint64_t location = 0;
  std::map<std::string, std::string> external;
};

void GiveReason(std::string why, WeightTensor& tensor) {
  Layer layer;
  layer.type = tensor.type;
  layer.why = std::move(why);
  layer.file_bytes = tensor.bytes.view().size();
  tensor.layer = std::make_shared<const Layer>(std::move(layer));
  tensor.bytes = Bytes();
}

absl::Status OnnxTensorReader::ReadFields(absl::string_view message, Fields& fields) const {
  const char* const begin = file_.view().data();
  WireReader reader(message, begin);
  while (!reader.AtEnd()) {
    const absl::StatusOr<WireField> field = reader.Next();
    if (!field.ok()) return field.status();
    const bool is_bytes = field->kind == WireKind::kBytes;
    switch (field->number) {
      case 1: {
        WireReader dims(field->bytes, begin);
        const bool is_packed = is_bytes;
        if (!is_packed) fields.shape.push_back(field->value);
        while (is_packed && !dims.AtEnd() && fields.shape.size() <= kMostOnnxDimensions) {
          const absl::StatusOr<std::uint64_t> dimension = dims.NextVarint();
          if (!dimension.ok()) return dimension.status();
          fields.shape.push_back(*dimension);
        }
        if (fields.shape.size() > kMostOnnxDimensions) {
          return Refused("a tensor", absl::StrCat("has more than ", kMostOnnxDimensions,
                                                  " dimensions, the most that is accepted"));
        }
        break;
      }
      case 2:
        fields.type = field->value;
        break;
      case 3:
        fields.is_segment = true;
        break;
      case 4:
      case 5:
      case 6:
      case 7:
      case 10:
      case 11: {
        Typed& typed = fields.typed[field->number];
        typed.packed = field->bytes;
        // Neither packed nor of one piece: nobody writes that any more.
        typed.pieces += is_bytes ? 1 : 2;
        break;
      }
      case 8:
        fields.name = std::string(field->bytes);
        break;
      case 9:
        if (fields.raw) return Refused("a tensor", "has raw_data twice");
        if (is_bytes) fields.raw = field->bytes;
        break;
      case 13: {
        std::string key;
        std::string value;
        WireReader entry(field->bytes, begin);
        while (!entry.AtEnd()) {
          const absl::StatusOr<WireField> each = entry.Next();
          if (!each.ok()) return each.status();
          if (each->number == 1) key = std::string(each->bytes);
          if (each->number == 2) value = std::string(each->bytes);
        }
        if (!fields.external.emplace(std::move(key), std::move(value)).second) {
          return Refused("a tensor", "has a key of external_data twice");
        }
        break;
      }
      case 14:
        fields.location = field->value;
        break;
      default:
        break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<WeightTensor> OnnxTensorReader::Read(absl::string_view message) {
  Fields fields;
  if (absl::Status s = ReadFields(message, fields); !s.ok()) return s;
  WeightTensor tensor;
  tensor.name = fields.name;
  tensor.shape = fields.shape;
  const std::string where = absl::StrCat("tensor ", Quoted(fields.name));
  for (const std::uint64_t dimension : fields.shape) {
    if (dimension >> 63 == 0) continue;
    return Refused(where, absl::StrCat("has the dimension ", static_cast<std::int64_t>(dimension),
                                       ", which is below 0"));
  }
  const OnnxType* const type = FindOnnxType(fields.type);
  tensor.type = type == nullptr ? absl::StrCat("type ", fields.type) : std::string(type->name);
  std::optional<std::uint64_t> size = std::uint64_t{0};
  const bool has_size = type != nullptr && type->bits != 0;
  if (has_size) size = SizeOf(type->bits, fields.shape);
  if (!size) {
    return Refused(where, absl::StrCat("has shape ", ShapeText(fields.shape),
                                       ", which is 2^61 bytes or more"));
  }
  if (fields.is_segment) return Refused(where, "is a segment of one; whole tensors are read");
  if (fields.location > kExternal) {
    return Refused(where, absl::StrCat("has data_location ", fields.location,
                                       "; 0, in the model, and 1, external, are known"));
  }
  if (fields.location == kExternal) {
    if (fields.raw || !fields.typed.empty()) {
      return Refused(where, "has data_location external, and values in the model too");
    }
    if (absl::Status s = FindExternal(where, fields, *size, has_size, tensor); !s.ok()) return s;
  } else if (fields.raw) {
    if (!fields.typed.empty()) return Refused(where, "has raw_data, and values in another field");
    if (has_size && fields.raw->size() != *size) {
      return Refused(
          where, absl::StrCat("of ", tensor.type, " and shape ", ShapeText(fields.shape), " takes ",
                              *size, " bytes, but its raw_data have ", fields.raw->size()));
    }
    tensor.bytes = file_.Part(*fields.raw);
  } else if (has_size) {
    if (absl::Status s = FindTyped(where, fields, *size, tensor); !s.ok()) return s;
  }
  if (tensor.layer != nullptr) return tensor;
  if (type == nullptr) GiveReason("this version of gemm does not know it", tensor);
  if (tensor.type == "STRING") GiveReason("texts are no numbers", tensor);
  if (tensor.type == "C128") GiveReason("complex numbers have no form: F64 is closest", tensor);
  return tensor;
}

absl::Status OnnxTensorReader::FindExternal(absl::string_view where, const Fields& fields,
                                            std::uint64_t size, bool has_size,
                                            WeightTensor& tensor) {
  const auto location = fields.external.find("location");
  if (location == fields.external.end()) {
    return Refused(where, "has data_location external, and external_data without a location");
  }
  const std::string& path = location->second;
  if (!IsWithinFolder(path)) {
    return Refused(where, absl::StrCat("has its data in ", Quoted(path),
                                       "; it must be a file of the model's folder or below it, "
                                       "without \".\" and \"..\""));
  }
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  for (const char* key : {"offset", "length"}) {
    const auto found = fields.external.find(key);
    if (found == fields.external.end()) continue;
    std::uint64_t number = 0;
    if (!absl::SimpleAtoi(found->second, &number)) {
      return Refused(where, absl::StrCat("has the external ", key, " ", Quoted(found->second),
                                         "; it must be a whole number of 64 bits"));
    }
    if (key[0] == 'o') {
      offset = number;
    } else {
      length = number;
    }
  }
  if (has_size && length && *length != size) {
    return Refused(
        where, absl::StrCat("of ", tensor.type, " and shape ", ShapeText(fields.shape), " takes ",
                            size, " bytes, but its external length is ", *length));
  }
  if (!has_size) size = length.value_or(0);
  auto file = files_.find(path);
  if (file == files_.end()) {
    if (files_.size() == kMostOnnxFiles) {
      return Refused(where, absl::StrCat("is in one more than ", kMostOnnxFiles, " files"));
    }
    absl::StatusOr<Bytes> opened = open_(path);
    if (!opened.ok()) return opened.status();
    file = files_.emplace(path, *std::move(opened)).first;
  }
  const absl::string_view all = file->second.view();
  if (offset > all.size() || size > all.size() - offset) {
    return Refused(where, absl::StrCat("has ", size, " bytes at offset ", offset, " of ",
                                       Quoted(path), ", which has ", all.size()));
  }
  if (size != 0) ranges_.push_back({path, offset, offset + size, fields.name});
  tensor.bytes = file->second.Part(all.substr(offset, size));
  return absl::OkStatus();
}

absl::Status OnnxTensorReader::FindTyped(absl::string_view where, const Fields& fields,
                                         std::uint64_t size, WeightTensor& tensor) const {
  if (fields.typed.size() > 1) return Refused(where, "has its values in two fields");
  if (fields.typed.empty()) {
    if (size == 0) return absl::OkStatus();
    return Refused(where, absl::StrCat("of ", tensor.type, " and shape ", ShapeText(fields.shape),
                                       " takes ", size, " bytes, and has no values"));
  }
  const auto& [number, typed] = *fields.typed.begin();
  if (typed.pieces != 1) {
    GiveReason(
        "its values are not packed in one piece; saved once more by the onnx library they "
        "are",
        tensor);
    return absl::OkStatus();
  }
  const OnnxType& type = *FindOnnxType(fields.type);
  if (number == type.field && type.entry_bytes != 0) return Decode(where, fields, size, tensor);
  tensor.bytes = file_.Part(typed.packed);
  // 64-bit integers are listed, and have no form: whether they are as many matters to nobody.
  if (number != type.field) {
    return Refused(where, absl::StrCat("of ", tensor.type, " has its values in field ", number,
                                       " of TensorProto; those of its type are in ", type.field));
  }
  const bool is_as_it_lies = number == kFloatData || number == kDoubleData;
  if (is_as_it_lies && typed.packed.size() != size) {
    return Refused(
        where, absl::StrCat("of ", tensor.type, " and shape ", ShapeText(fields.shape), " takes ",
                            size, " bytes, but its values have ", typed.packed.size()));
  }
  return absl::OkStatus();
}

absl::Status OnnxTensorReader::Decode(absl::string_view where, const Fields& fields,
                                      std::uint64_t size, WeightTensor& tensor) const {
  const auto entry_bytes = static_cast<std::uint64_t>(FindOnnxType(fields.type)->entry_bytes);
  if (size / entry_bytes > kMostOnnxEntries) {
    GiveReason(absl::StrCat("int32_data has its values, and at most ", kMostOnnxEntries,
                            " are read there; onnx.numpy_helper.from_array puts them in raw_data"),
               tensor);
    return absl::OkStatus();
  }
  const absl::string_view packed = fields.typed.begin()->second.packed;
  // Each entry takes a byte at least: no size is believed before there are as many.
  if (size / entry_bytes > packed.size()) {
    return Refused(
        where, absl::StrCat("of ", tensor.type, " and shape ", ShapeText(fields.shape), " takes ",
                            size / entry_bytes, " entries of int32_data, which has ", packed.size(),
                            " bytes"));
  }
  std::string bytes;
  bytes.reserve(size);
  WireReader reader(packed, file_.view().data());
  while (!reader.AtEnd()) {
    const absl::StatusOr<std::uint64_t> value = reader.NextVarint();
    if (!value.ok()) return value.status();
    const auto number = static_cast<std::int64_t>(*value);
    const std::int64_t above = std::int64_t{1} << (8 * entry_bytes);
    if (bytes.size() == size || number >= above || number < -above / 2) {
      return Refused(where, absl::StrCat("of ", tensor.type, " and shape ", ShapeText(fields.shape),
                                         " has ", number, " as entry ", bytes.size() / entry_bytes,
                                         " of ", size / entry_bytes, " in int32_data"));
    }
    for (std::uint64_t i = 0; i < entry_bytes; ++i) {
      bytes += static_cast<char>(*value >> (8 * i));
    }
  }
  if (bytes.size() != size) {
    return Refused(
        where, absl::StrCat("of ", tensor.type, " and shape ", ShapeText(fields.shape), " takes ",
                            size / entry_bytes, " entries of int32_data, which has ",
                            bytes.size() / entry_bytes));
  }
  tensor.bytes = Bytes(std::move(bytes));
  return absl::OkStatus();
}

absl::Status OnnxTensorReader::CheckApart() {
  const auto key = [](const Range& range) {
    return std::tie(range.location, range.begin, range.end);
  };
  std::sort(ranges_.begin(), ranges_.end(),
            [&key](const Range& x, const Range& y) { return key(x) < key(y); });
  for (std::size_t i = 1; i < ranges_.size(); ++i) {
    const Range& before = ranges_[i - 1];
    const Range& range = ranges_[i];
    if (range.location != before.location || range.begin >= before.end) continue;
    if (key(range) == key(before)) continue;
    return Refused(absl::StrCat("tensor ", Quoted(range.name)),
                   absl::StrCat("begins at byte ", range.begin, " of ", Quoted(range.location),
                                ", within tensor ", Quoted(before.name)));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::client
