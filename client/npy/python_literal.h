// Reads the few Python literals that a .npy header is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::client {

// Consumes a text from its front. Every error is INVALID_ARGUMENT and says what was
// expected and what stands there. Bounded by the text: nothing recurses.
class PythonLiteralReader {
 public:
  explicit PythonLiteralReader(absl::string_view text) : rest_(text) {}

  // The next character that is not white space; '\0' at the end.
  char Peek();

  // Consumes `expected` if it comes next.
  bool Accept(char expected);
  absl::Status Expect(char expected);

  // 'text' or "text", without escapes.
  absl::StatusOr<std::string> String();
  // True or False.
  absl::StatusOr<bool> Boolean();
  // (), (3,), (3, 4): a tuple of non-negative integers of 64 bits. A trailing L, as
  // Python 2 wrote, is read.
  absl::StatusOr<std::vector<std::uint64_t>> Shape();

  // "expected WHAT at '...'".
  absl::Status Unexpected(absl::string_view expected);

 private:
  absl::StatusOr<std::uint64_t> Dimension();

  absl::string_view rest_;
};

}  // namespace gemmd::client
