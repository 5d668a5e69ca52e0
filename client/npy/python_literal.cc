#include "client/npy/python_literal.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gemmd::client {

char PythonLiteralReader::Peek() {
  rest_ = absl::StripLeadingAsciiWhitespace(rest_);
  return rest_.empty() ? '\0' : rest_.front();
}

bool PythonLiteralReader::Accept(char expected) {
  if (Peek() != expected || rest_.empty()) return false;
  rest_.remove_prefix(1);
  return true;
}

absl::Status PythonLiteralReader::Expect(char expected) {
  if (Accept(expected)) return absl::OkStatus();
  return Unexpected(absl::string_view(&expected, 1));
}

absl::StatusOr<std::string> PythonLiteralReader::String() {
  const char quote = Peek();
  if (quote != '\'' && quote != '"') return Unexpected("a string");
  const std::size_t end = rest_.find(quote, 1);
  if (end == absl::string_view::npos) return Unexpected("a string that ends");
  std::string text(rest_.substr(1, end - 1));
  rest_.remove_prefix(end + 1);
  return text;
}

absl::StatusOr<bool> PythonLiteralReader::Boolean() {
  Peek();
  if (absl::ConsumePrefix(&rest_, "True")) return true;
  if (absl::ConsumePrefix(&rest_, "False")) return false;
  return Unexpected("True or False");
}

absl::StatusOr<std::vector<std::uint64_t>> PythonLiteralReader::Shape() {
  if (absl::Status status = Expect('('); !status.ok()) return status;
  std::vector<std::uint64_t> shape;
  while (!Accept(')')) {
    absl::StatusOr<std::uint64_t> dimension = Dimension();
    if (!dimension.ok()) return dimension.status();
    shape.push_back(*dimension);
    if (Accept(',')) continue;
    if (absl::Status status = Expect(')'); !status.ok()) return status;
    break;
  }
  return shape;
}

absl::StatusOr<std::uint64_t> PythonLiteralReader::Dimension() {
  if (Peek() == '-') return Unexpected("a dimension that is not negative");
  std::size_t digits = 0;
  while (digits < rest_.size() && absl::ascii_isdigit(rest_[digits])) ++digits;
  std::uint64_t value = 0;
  if (digits == 0) return Unexpected("a dimension");
  if (!absl::SimpleAtoi(rest_.substr(0, digits), &value)) {
    return Unexpected("a dimension that fits 64 bits");
  }
  rest_.remove_prefix(digits);
  absl::ConsumePrefix(&rest_, "L");
  return value;
}

absl::Status PythonLiteralReader::Unexpected(absl::string_view expected) {
  Peek();
  constexpr std::size_t kShownBytes = 40;
  return absl::InvalidArgumentError(absl::StrCat(
      "expected ", expected, " at '", absl::CHexEscape(rest_.substr(0, kShownBytes)), "'"));
}

}  // namespace gemmd::client
