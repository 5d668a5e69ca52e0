// The header of a safetensors file: 8 bytes, little-endian, with the length of a JSON object, then
// that object; the tensors' bytes follow. Read strictly: whatever is not in this grammar is
// refused by name. Texts and values; no files.
//
//   {"__metadata__": {KEY: TEXT, ...},
//    NAME: {"dtype": TEXT, "shape": [N, ...], "data_offsets": [BEGIN, END]}, ...}
//
// Source: safetensors, README, "Format".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::client {

inline constexpr std::uint64_t kSafetensorsPreambleBytes = 8;
// The most bytes of a header, which is JSON. Ours take less than 1 KiB; other programs may have
// added metadata.
inline constexpr std::uint64_t kMostSafetensorsHeaderBytes = 64 << 10;
inline constexpr std::size_t kMostSafetensorsDimensions = 8;
// Above what any model has, and few enough to be listed in memory.
inline constexpr std::size_t kMostSafetensorsTensors = std::size_t{1} << 18;

struct SafetensorsTensor {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // in the bytes behind the header
  std::uint64_t end = 0;    // one past its last
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::map<std::string, SafetensorsTensor> tensors;
};

// The length that the first 8 bytes say. INVALID_ARGUMENT: there are fewer, or it is 0, above
// `most`, or more than a file of that size has behind them.
absl::StatusOr<std::uint64_t> ParseSafetensorsPreamble(
    absl::string_view bytes, std::uint64_t file_bytes,
    std::uint64_t most = kMostSafetensorsHeaderBytes);

// INVALID_ARGUMENT: the text is not JSON of the grammar above, an object has a key twice, a number
// is no whole one of 64 bits, there are more than kMostSafetensorsTensors, or offsets are not
// within `data_bytes` and in order. Tensors may still overlap, and their sizes be anything: see
// CheckCovered().
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         std::uint64_t data_bytes);

// INVALID_ARGUMENT: two tensors overlap, or bytes belong to none.
absl::Status CheckCovered(const SafetensorsHeader& header, std::uint64_t data_bytes);

// Preamble and JSON, with blanks up to a multiple of 8 bytes, so that data are aligned.
std::string FormatSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace gemmd::client
