#include "client/operand.h"

#include "absl/strings/escaping.h"
#include "base/text/operand_name.h"

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
  const MatrixFormat* operator()(const StackedOperand& operand) const { return &operand.matrix; }
};

}  // namespace

OperandName ParseOperandName(absl::string_view text) {
  if (HasDigestForm(text)) return {{}, absl::HexStringToBytes(text)};
  if (HasHandleForm(text)) return {std::string(text), {}};
  return {{}, {}, std::nullopt, std::string(text)};
}

const MatrixFormat* FormatOf(const Operand& operand) { return std::visit(Format(), operand); }

}  // namespace gemmd::client
