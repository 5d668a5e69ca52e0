#include "client/weights/onnx/proto_wire.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gemmd::client {
namespace {

constexpr int kMostVarintBytes = 10;
constexpr std::uint64_t kMostFieldNumber = (std::uint64_t{1} << 29) - 1;

}  // namespace

absl::Status WireReader::Refused(absl::string_view why) const {
  return absl::InvalidArgumentError(
      absl::StrCat("at byte ", left_.data() - file_begin_, " of the file ", why));
}

absl::StatusOr<std::uint64_t> WireReader::NextVarint() {
  std::uint64_t value = 0;
  for (int i = 0; i < kMostVarintBytes; ++i) {
    if (static_cast<std::size_t>(i) == left_.size()) {
      return Refused("a number is cut off by the end of its message");
    }
    const auto byte = static_cast<std::uint8_t>(left_[static_cast<std::size_t>(i)]);
    // The tenth byte has one bit left.
    if (i == kMostVarintBytes - 1 && byte > 1) break;
    value |= std::uint64_t{byte & 0x7fU} << (7 * i);
    if (byte < 0x80) {
      left_.remove_prefix(static_cast<std::size_t>(i) + 1);
      return value;
    }
  }
  return Refused("a number has more than 64 bits");
}

absl::StatusOr<WireField> WireReader::Next() {
  const absl::StatusOr<std::uint64_t> tag = NextVarint();
  if (!tag.ok()) return tag.status();
  WireField field;
  field.number = *tag / 8;
  if (field.number == 0 || field.number > kMostFieldNumber) {
    return Refused(absl::StrCat("a field has the number ", field.number, "; 1 to ",
                                kMostFieldNumber, " are numbers of fields"));
  }
  std::uint64_t length = 0;
  switch (*tag % 8) {
    case 0: {
      const absl::StatusOr<std::uint64_t> value = NextVarint();
      if (!value.ok()) return value.status();
      field.value = *value;
      return field;
    }
    case 1:
      field.kind = WireKind::kFixed64;
      length = 8;
      break;
    case 2: {
      field.kind = WireKind::kBytes;
      const absl::StatusOr<std::uint64_t> bytes = NextVarint();
      if (!bytes.ok()) return bytes.status();
      length = *bytes;
      break;
    }
    case 5:
      field.kind = WireKind::kFixed32;
      length = 4;
      break;
    default:
      return Refused(absl::StrCat("field ", field.number, " is of the kind ", *tag % 8,
                                  "; 0, 1, 2 and 5 are known"));
  }
  if (length > left_.size()) {
    return Refused(absl::StrCat("field ", field.number, " has ", length, " bytes; its message has ",
                                left_.size(), " left"));
  }
  field.bytes = left_.substr(0, length);
  left_.remove_prefix(length);
  return field;
}

}  // namespace gemmd::client
