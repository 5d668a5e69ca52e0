#include "client/quantized/safetensors.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "nlohmann/json.hpp"

namespace gemmd::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMetadata[] = "__metadata__";

// Receives the parser's events and keeps what the grammar has; the first that it has not ends the
// parse with `error`. It is never deeper than an array in an object in the object, so that depth
// costs nothing.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  SafetensorsHeader header;
  std::string error;

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a truth value"); }
  bool number_integer(number_integer_t value) override {
    return Unexpected(absl::StrCat("the negative number ", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected(absl::StrCat("the number ", Quoted(text)));
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kArray) return Unexpected(absl::StrCat("the number ", value));
    if (numbers_.size() == kMostSafetensorsDimensions) {
      return Refuse(
          absl::StrCat(Where(), " has more than ", kMostSafetensorsDimensions, " numbers"));
    }
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) {
      if (!header.metadata.emplace(field_, text).second) return Twice(field_);
      return true;
    }
    if (place_ != Place::kTensor || field_ != "dtype") return Unexpected("a text");
    tensor_.dtype = text;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kOutside:
        place_ = Place::kRoot;
        return true;
      case Place::kRoot:
        place_ = name_ == kMetadata ? Place::kMetadata : Place::kTensor;
        tensor_ = {};
        fields_.clear();
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool key(string_t& name) override {
    if (place_ == Place::kRoot) {
      name_ = name;
      field_.clear();
      if (name != kMetadata) return header.tensors.count(name) == 0 || Twice(name);
      return !std::exchange(has_metadata_, true) || Twice(name);
    }
    field_ = name;
    if (place_ == Place::kMetadata) return true;
    if (name != "dtype" && name != "shape" && name != "data_offsets") {
      return Refuse(absl::StrCat("tensor ", Quoted(name_), " has the field ", Quoted(name),
                                 "; dtype, shape and data_offsets are accepted"));
    }
    if (std::find(fields_.begin(), fields_.end(), name) != fields_.end()) return Twice(name);
    fields_.push_back(name);
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (std::find(fields_.begin(), fields_.end(), field) == fields_.end()) {
          return Refuse(absl::StrCat("tensor ", Quoted(name_), " has no ", field));
        }
      }
      if (header.tensors.size() == kMostSafetensorsTensors) {
        return Refuse(absl::StrCat("the header has more than ", kMostSafetensorsTensors,
                                   " tensors, the most that are accepted"));
      }
      header.tensors.emplace(name_, std::move(tensor_));
    }
    place_ = place_ == Place::kRoot ? Place::kOutside : Place::kRoot;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || field_ == "dtype") return Unexpected("an array");
    place_ = Place::kArray;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    if (field_ == "shape") {
      tensor_.shape = std::move(numbers_);
      return true;
    }
    if (numbers_.size() != 2) {
      return Refuse(absl::StrCat(Where(), " has ", numbers_.size(), " numbers; it must have 2"));
    }
    tensor_.begin = numbers_[0];
    tensor_.end = numbers_[1];
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return Refuse(absl::StrCat("the header is no JSON from its byte ", position, " on"));
  }

 private:
  // In which object, or array of a tensor's, the next event is.
  enum class Place { kOutside, kRoot, kMetadata, kTensor, kArray };

  std::string Where() const {
    if (place_ == Place::kOutside) return "the header";
    if (field_.empty()) return absl::StrCat("the header's ", Quoted(name_));
    return absl::StrCat("the header's ", Quoted(name_), ": ", Quoted(field_));
  }
  bool Refuse(std::string why) {
    error = std::move(why);
    return false;
  }
  bool Unexpected(absl::string_view what) {
    return Refuse(absl::StrCat(Where(), " has ", what, ", which does not belong there"));
  }
  bool Twice(absl::string_view name) {
    return Refuse(absl::StrCat("the header has ", Quoted(name), " twice"));
  }

  Place place_ = Place::kOutside;
  std::string name_;   // of the tensor, or __metadata__
  std::string field_;  // in it
  bool has_metadata_ = false;
  SafetensorsTensor tensor_;
  std::vector<std::string> fields_;  // that the tensor has
  std::vector<std::uint64_t> numbers_;
};

}  // namespace

absl::StatusOr<std::uint64_t> ParseSafetensorsPreamble(absl::string_view bytes,
                                                       std::uint64_t file_bytes,
                                                       std::uint64_t most) {
  if (bytes.size() < kSafetensorsPreambleBytes || file_bytes < kSafetensorsPreambleBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file has ", std::min<std::uint64_t>(bytes.size(), file_bytes),
                     " bytes; a safetensors file begins with 8 of a length"));
  }
  std::uint64_t length = 0;
  for (std::size_t i = kSafetensorsPreambleBytes; i-- > 0;) {
    length = length << 8 | static_cast<std::uint8_t>(bytes[i]);
  }
  if (length == 0 || length > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("header length ", length, ": 1 to ", most, " bytes are accepted"));
  }
  if (length > file_bytes - kSafetensorsPreambleBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header length ", length, " reaches beyond the file of ", file_bytes, " bytes"));
  }
  return length;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         std::uint64_t data_bytes) {
  // A file that other readers refuse is refused here: they want this very byte first.
  if (text.empty() || text.front() != '{') {
    return absl::InvalidArgumentError("the header does not begin with {");
  }
  // The parser takes a 0 for the end of its input, whatever follows; other readers do not.
  if (const std::size_t at = text.find('\0'); at != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header is no JSON from its byte ", at, " on"));
  }
  HeaderReader reader;
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) {
    return absl::InvalidArgumentError(reader.error);
  }
  for (const auto& [name, tensor] : reader.header.tensors) {
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(name), " has data_offsets ", tensor.begin, " to ", tensor.end,
          "; they must be in order, within the ", data_bytes, " bytes behind the header"));
    }
  }
  return std::move(reader.header);
}

absl::Status CheckCovered(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    const std::string* name;
  };
  std::vector<Range> ranges;
  ranges.reserve(header.tensors.size());
  for (const auto& [name, tensor] : header.tensors) {
    ranges.push_back({tensor.begin, tensor.end, &name});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& x, const Range& y) {
    return std::make_pair(x.begin, x.end) < std::make_pair(y.begin, y.end);
  });
  std::uint64_t covered = 0;
  for (const Range& range : ranges) {
    if (range.begin < covered) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(*range.name), " begins at byte ", range.begin, ", within another one"));
    }
    if (range.begin > covered) break;
    covered = range.end;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("byte ", covered, " of the ", data_bytes,
                                                 " behind the header belongs to no tensor"));
}

std::string FormatSafetensorsHeader(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  for (const auto& [name, tensor] : header.tensors) {
    json[name] = {{"dtype", tensor.dtype},
                  {"shape", tensor.shape},
                  {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string preamble;
  for (std::size_t i = 0; i < kSafetensorsPreambleBytes; ++i) {
    preamble += static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i));
  }
  return preamble + text;
}

}  // namespace gemmd::client
