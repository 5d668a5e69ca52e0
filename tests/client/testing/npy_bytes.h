// .npy files as bytes, well-formed and otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gemmd::testing {

// A file of version major.0 whose dictionary is `dictionary`, as np.save pads it.
inline std::string NpyBytes(absl::string_view dictionary, absl::string_view data, int major = 1) {
  const std::size_t offset = major == 1 ? 10 : 12;
  std::string text(dictionary);
  while ((offset + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(major);
  file += '\0';
  for (std::size_t i = 0; i < offset - 8; ++i) file += static_cast<char>(text.size() >> (8 * i));
  return absl::StrCat(file, text, data);
}

// The dictionary np.save writes.
inline std::string NpyDictionaryText(absl::string_view descr, absl::string_view shape,
                                     bool fortran_order = false) {
  return absl::StrCat("{'descr': '", descr,
                      "', 'fortran_order': ", fortran_order ? "True" : "False",
                      ", 'shape': ", shape, ", }");
}

}  // namespace gemmd::testing
