#include "client/npy/npy_type.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gemmd::client {
namespace {

struct DescrMeaning {
  absl::string_view descr;
  DataType type;
  bool must_be_asked;  // the file alone does not say which type it is
};

// The first row of a type is how it is written.
constexpr DescrMeaning kMeanings[] = {
    {"<f8", DataType::kF64, false},
    {"<f4", DataType::kF32, false},
    {"<f2", DataType::kF16, false},
    {"|i1", DataType::kInt8, false},
    {"<i1", DataType::kInt8, false},
    {"<i4", DataType::kInt32, false},
    {"<V2", DataType::kBf16, false},
    {"|V2", DataType::kBf16, false},
    {"<f4", DataType::kTf32, true},
    {"|V1", DataType::kFp8E4M3, true},
    {"<V1", DataType::kFp8E4M3, true},
    {"|V1", DataType::kFp8E5M2, true},
    {"<V1", DataType::kFp8E5M2, true},
    {"<f1", DataType::kFp8E5M2, true},
    {"|u1", DataType::kFp8E4M3, true},
    {"|u1", DataType::kFp8E5M2, true},
    {"|u1", DataType::kUint8, true},
    {"|V1", DataType::kE8M0, true},
    {"<V1", DataType::kE8M0, true},
    {"|u1", DataType::kE8M0, true},
    // One element a byte, or packed where the bytes are uint8.
    {"|i1", DataType::kInt4, true},
    {"|V1", DataType::kInt4, true},
    {"<V1", DataType::kInt4, true},
    {"|u1", DataType::kInt4, true},
    {"|V1", DataType::kUint4, true},
    {"<V1", DataType::kUint4, true},
    {"|u1", DataType::kUint4, true},
    {"|V1", DataType::kFp6E3M2, true},
    {"<V1", DataType::kFp6E3M2, true},
    {"|u1", DataType::kFp6E3M2, true},
    {"|V1", DataType::kFp6E2M3, true},
    {"<V1", DataType::kFp6E2M3, true},
    {"|u1", DataType::kFp6E2M3, true},
    {"|V1", DataType::kFp4E2M1, true},
    {"<V1", DataType::kFp4E2M1, true},
    {"|u1", DataType::kFp4E2M1, true},
    {"|u1", DataType::kNf4, true},
    {"|u1", DataType::kBnbFp4, true},
    {"|u1", DataType::kIq4Nl, true},
};

constexpr absl::string_view kAccepted =
    "<f8, <f4, <f2, |i1, <i4, V2 (bf16), and V1 or |u1 with a --type of at most 8 bits";

absl::string_view Hint(absl::string_view descr) {
  if (descr.empty()) return "";
  if (descr.front() == '>') return " is big-endian";
  switch (descr.size() > 1 ? descr[1] : descr[0]) {
    case 'O':
      return " holds Python objects";
    case 'S':
    case 'U':
      return " holds strings";
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<DataType> TypeOfDescr(absl::string_view descr, std::optional<DataType> asked) {
  bool known = false;
  for (const DescrMeaning& meaning : kMeanings) {
    if (meaning.descr != descr) continue;
    known = true;
    if (asked ? *asked == meaning.type : !meaning.must_be_asked) return meaning.type;
  }
  const std::string quoted = absl::StrCat("descr '", absl::CHexEscape(descr), "'");
  if (known && asked) {
    return absl::InvalidArgumentError(absl::StrCat(quoted, " cannot be ", Name(*asked),
                                                   ", which was asked for; the file's type and "
                                                   "--type must agree"));
  }
  if (known && descr == "|u1") {
    return absl::InvalidArgumentError(absl::StrCat(
        quoted, " is accepted as codes only: say which, --type fp8_e4m3 or --type mxfp4"));
  }
  if (known) {
    return absl::InvalidArgumentError(
        absl::StrCat(quoted, " is one opaque byte: say --type fp8_e4m3 or --type mxfp4"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(quoted, Hint(descr), ": accepted are ", kAccepted));
}

absl::StatusOr<absl::string_view> DescrOfType(DataType type) {
  for (const DescrMeaning& meaning : kMeanings) {
    if (meaning.type == type && SizeBits(type) >= 8) return meaning.descr;
  }
  return absl::InvalidArgumentError(absl::StrCat(Name(type), ": .npy cannot hold it"));
}

}  // namespace gemmd::client
