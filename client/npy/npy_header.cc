#include "client/npy/npy_header.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "client/npy/python_literal.h"

namespace gemmd::client {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr std::uint64_t kMaxDictionaryBytes = 1 << 20;
constexpr std::uint64_t kDataAlignment = 64;

std::uint64_t LittleEndian(absl::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

absl::Status ReadDescr(PythonLiteralReader& reader, NpyDictionary& dictionary) {
  if (reader.Peek() == '[') {
    return absl::InvalidArgumentError("descr is a structured dtype: one plain type is accepted");
  }
  absl::StatusOr<std::string> descr = reader.String();
  if (!descr.ok()) return descr.status();
  dictionary.descr = *std::move(descr);
  return absl::OkStatus();
}

absl::Status ReadOrder(PythonLiteralReader& reader, NpyDictionary& dictionary) {
  const absl::StatusOr<bool> fortran_order = reader.Boolean();
  if (!fortran_order.ok()) return fortran_order.status();
  dictionary.fortran_order = *fortran_order;
  return absl::OkStatus();
}

absl::Status ReadShape(PythonLiteralReader& reader, NpyDictionary& dictionary) {
  absl::StatusOr<std::vector<std::uint64_t>> shape = reader.Shape();
  if (!shape.ok()) return shape.status();
  dictionary.shape = *std::move(shape);
  return absl::OkStatus();
}

// One key and what reads its value; each must come exactly once, in any order.
struct Entry {
  absl::string_view key;
  absl::Status (*read)(PythonLiteralReader&, NpyDictionary&);
  bool seen = false;
};

absl::Status ReadEntry(PythonLiteralReader& reader, absl::Span<Entry> entries,
                       NpyDictionary& dictionary) {
  const absl::StatusOr<std::string> key = reader.String();
  if (!key.ok()) return key.status();
  for (Entry& entry : entries) {
    if (entry.key != *key) continue;
    if (entry.seen) return absl::InvalidArgumentError(absl::StrCat("key ", *key, " comes twice"));
    entry.seen = true;
    if (absl::Status status = reader.Expect(':'); !status.ok()) return status;
    if (absl::Status status = entry.read(reader, dictionary); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(*key, ": ", status.message()));
    }
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown key '", absl::CHexEscape(*key), "'"));
}

}  // namespace

absl::StatusOr<NpyPreamble> ParseNpyPreamble(absl::string_view start) {
  if (start.empty()) return absl::InvalidArgumentError("the file is empty: not a .npy file");
  if (!absl::StartsWith(start, kMagic)) {
    return absl::InvalidArgumentError("not a .npy file: it does not begin with \\x93NUMPY");
  }
  constexpr std::size_t kVersionEnd = 8;
  if (start.size() < kVersionEnd) return absl::InvalidArgumentError("truncated within its header");
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(".npy format version ", major, ".", minor, ": 1.0, 2.0 and 3.0 are accepted"));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (start.size() < kVersionEnd + length_bytes) {
    return absl::InvalidArgumentError("truncated within its header");
  }
  NpyPreamble preamble;
  preamble.dictionary_offset = kVersionEnd + length_bytes;
  preamble.dictionary_bytes = LittleEndian(start.substr(kVersionEnd, length_bytes));
  if (preamble.dictionary_bytes > kMaxDictionaryBytes) {
    return absl::InvalidArgumentError(absl::StrCat("header length ", preamble.dictionary_bytes,
                                                   ": at most ", kMaxDictionaryBytes,
                                                   " is accepted"));
  }
  return preamble;
}

absl::StatusOr<NpyDictionary> ParseNpyDictionary(absl::string_view text) {
  NpyDictionary dictionary;
  Entry entries[] = {{"descr", ReadDescr}, {"fortran_order", ReadOrder}, {"shape", ReadShape}};
  PythonLiteralReader reader(text);
  if (absl::Status status = reader.Expect('{'); !status.ok()) return status;
  while (!reader.Accept('}')) {
    absl::Status status = ReadEntry(reader, absl::MakeSpan(entries), dictionary);
    if (!status.ok()) return status;
    if (reader.Accept(',')) continue;
    if (status = reader.Expect('}'); !status.ok()) return status;
    break;
  }
  if (reader.Peek() != '\0') return reader.Unexpected("nothing after the dictionary");
  for (const Entry& entry : entries) {
    if (!entry.seen) return absl::InvalidArgumentError(absl::StrCat("no key ", entry.key));
  }
  return dictionary;
}

std::string FormatShape(const std::vector<std::uint64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")");
}

std::string FormatNpyHeader(const NpyDictionary& dictionary) {
  std::string text =
      absl::StrCat("{'descr': '", dictionary.descr,
                   "', 'fortran_order': ", dictionary.fortran_order ? "True" : "False",
                   ", 'shape': ", FormatShape(dictionary.shape), ", }");
  constexpr std::uint64_t kDictionaryOffset = 10;
  while ((kDictionaryOffset + text.size() + 1) % kDataAlignment != 0) text += ' ';
  text += '\n';
  const char preamble[] = {1, 0, static_cast<char>(text.size() & 0xFF),
                           static_cast<char>(text.size() >> 8)};
  return absl::StrCat(kMagic, absl::string_view(preamble, sizeof(preamble)), text);
}

}  // namespace gemmd::client
