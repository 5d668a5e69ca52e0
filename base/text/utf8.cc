#include "base/text/utf8.h"

namespace gemmd {

std::size_t Utf8CharacterBytes(absl::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t count = first >= 0xc2 && first < 0xe0    ? 2
                            : first >= 0xe0 && first < 0xf0  ? 3
                            : first >= 0xf0 && first <= 0xf4 ? 4
                                                             : 0;
  if (count == 0 || text.size() < count) return 0;
  // The first two bytes may not begin a longer form than needed, a surrogate, or what is over
  // U+10FFFF.
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  for (std::size_t i = 2; i < count; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  return count;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = Utf8CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace gemmd
