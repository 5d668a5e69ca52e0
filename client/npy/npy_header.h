// The header of a .npy file, as numpy.lib.format describes it: magic, version, length,
// and a Python dictionary literal. Pure functions over text; npy.h has the files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::client {

// The bytes from the file's start that ParseNpyPreamble can make use of.
inline constexpr std::uint64_t kNpyPreambleBytes = 12;

// The place of the dictionary in the file. The data follow it.
struct NpyPreamble {
  std::uint64_t dictionary_offset = 0;
  std::uint64_t dictionary_bytes = 0;
};

struct NpyDictionary {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// `start` is the file's first kNpyPreambleBytes bytes, or all of a shorter file.
// INVALID_ARGUMENT for another magic, an unknown version (1.0, 2.0 and 3.0 are known),
// or a dictionary above 1 MiB.
absl::StatusOr<NpyPreamble> ParseNpyPreamble(absl::string_view start);

// INVALID_ARGUMENT names what was found where: a missing, repeated or unknown key, a
// structured dtype, a negative dimension, text after the dictionary.
absl::StatusOr<NpyDictionary> ParseNpyDictionary(absl::string_view text);

// Formats a shape as Python writes a tuple: "()", "(3,)", "(3, 4)".
std::string FormatShape(const std::vector<std::uint64_t>& shape);

// The whole header of version 1.0, padded so that data begin at a multiple of 64.
std::string FormatNpyHeader(const NpyDictionary& dictionary);

}  // namespace gemmd::client
