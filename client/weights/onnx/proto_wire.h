// The fields of a message in protobuf's wire format, one after another, as they lie: nothing is
// copied, and a field that nobody asks for costs no more than its length. A value; no files.
//
// A field is a varint of number * 8 + kind, and then a varint (kind 0), 8 bytes (1), a varint of
// bytes and these (2), or 4 bytes (5). Kinds 3 and 4, groups, are refused.
// Source: protobuf.dev, "Encoding".
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::client {

enum class WireKind : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  std::uint64_t number = 0;
  WireKind kind{};
  std::uint64_t value = 0;  // of kVarint
  absl::string_view bytes;  // of the others, as they lie
};

class WireReader {
 public:
  // A part of a file, at whose begin places are counted from in errors.
  WireReader(absl::string_view message, const char* file_begin)
      : left_(message), file_begin_(file_begin) {}

  bool AtEnd() const { return left_.empty(); }

  // INVALID_ARGUMENT, with the place in the file: a varint is cut off or has more than 64 bits, a
  // field is longer than what is left of the message, is a group, or has the number 0.
  absl::StatusOr<WireField> Next();
  // As they follow each other in a packed field.
  absl::StatusOr<std::uint64_t> NextVarint();

 private:
  absl::Status Refused(absl::string_view why) const;

  absl::string_view left_;
  const char* file_begin_;
};

}  // namespace gemmd::client
