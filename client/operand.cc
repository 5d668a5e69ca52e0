#include "client/operand.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/digest/sha256.h"

namespace gemmd::client {
namespace {

struct Format {
  const MatrixFormat* operator()(const InlineOperand& operand) const {
    return &operand.data.format();
  }
  const MatrixFormat* operator()(const OperandSource& operand) const {
    return &operand.data().format();
  }
  const MatrixFormat* operator()(const OperandName& operand) const {
    return operand.format ? &*operand.format : nullptr;
  }
  const MatrixFormat* operator()(const SharedOperand& operand) const { return &operand.data; }
};

}  // namespace

OperandName ParseOperandName(absl::string_view text) {
  const bool is_digest = text.size() == 2 * kSha256Bytes &&
                         std::all_of(text.begin(), text.end(),
                                     [](unsigned char c) { return absl::ascii_isxdigit(c); });
  if (is_digest) return {{}, absl::HexStringToBytes(text)};
  return {std::string(text), {}};
}

const MatrixFormat* FormatOf(const Operand& operand) { return std::visit(Format(), operand); }

}  // namespace gemmd::client
