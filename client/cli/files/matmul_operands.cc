#include "client/cli/files/matmul_operands.h"

#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/numbers/types.h"
#include "client/operand.h"
#include "client/quantized/quantize.h"
#include "client/quantized/quantized_array.h"

namespace gemmd::cli {
namespace {

struct Read {
  std::optional<client::Operand> given;
  std::optional<client::Matrix> full;  // f32
};

class Reader {
 public:
  explicit Reader(const OperandsArguments& arguments) : arguments_(arguments) {}

  // "a" or "b".
  Outcome ReadFactor(const std::string& name, const OperandArguments& operand, Read& read) const {
    const client::Side side = name == "a" ? client::Side::kA : client::Side::kB;
    const client::KAxis k_axis = client::KAxisOf(
        side, side == client::Side::kA ? arguments_.transpose_a : arguments_.transpose_b);
    if (!operand.quantize.empty()) return ReadAndQuantize(name, operand, side, k_axis, read);
    if (!IsName(operand) && IsContainer(arguments_.formats, name, operand.path)) {
      if (!operand.scales.empty()) {
        return UsageFailure("--" + name + "-scales: " + operand.path + " has its own");
      }
      std::optional<client::QuantizedArray> array;
      if (Outcome failure = ReadContainer(arguments_.formats, name, operand.path, array)) {
        return failure;
      }
      if (absl::Status s = client::CheckKAxis(*array, k_axis); !s.ok()) {
        return UsageFailure(absl::StrCat(operand.path, ": ", s.message()));
      }
      return Keep(*array, side, operand.path, true, read);
    }
    return ReadPlain(name, operand, read);
  }

  // As the file is, with scales where it has some.
  Outcome ReadPlain(const std::string& name, const OperandArguments& operand, Read& read) const {
    if (operand.path.empty()) return std::nullopt;
    if (IsName(operand)) {
      if (!operand.scales.empty()) {
        return UsageFailure("--" + name + "-scales: " + operand.path + " has its own, if any");
      }
      if (arguments_.report_error) {
        return UsageFailure("--report-error: what " + operand.path +
                            " was before it was quantized is not known here; give a file");
      }
      read.given = client::ParseOperandName(operand.path.substr(1));
      return std::nullopt;
    }
    std::optional<client::Matrix> data;
    // A stack would have scales of each of its matrices, and an error of each product.
    const bool may_be_stack = operand.scales.empty() && !arguments_.report_error;
    if (Outcome failure = arguments_.formats.Read(name, operand.path, data, may_be_stack)) {
      return failure;
    }
    client::InlineOperand sent(*std::move(data));
    if (Outcome failure =
            ReadScaleFiles(operand.scales, name + "-", arguments_.formats.Format(name),
                           arguments_.formats.IsTiled(name), name == "a", sent)) {
      return failure;
    }
    if (arguments_.report_error) {
      if (Outcome failure = KeepFull(operand.path, sent.data, read)) return failure;
    }
    read.given = std::move(sent);
    return std::nullopt;
  }

 private:
  static bool IsName(const OperandArguments& operand) {
    return !operand.path.empty() && operand.path[0] == '@';
  }

  Outcome ReadAndQuantize(const std::string& name, const OperandArguments& operand,
                          client::Side side, client::KAxis k_axis, Read& read) const {
    const QuantizeAsked asked{"--quantize-" + name, operand.quantize, k_axis, arguments_.choices};
    if (IsName(operand)) {
      return UsageFailure(asked.option + ": " + operand.path +
                          " stays on the server as it is; give a file");
    }
    if (!operand.scales.empty()) {
      return UsageFailure(asked.option + " makes the scales; drop --" + name +
                          "-scales and the like");
    }
    std::optional<client::Matrix> real;
    std::optional<client::QuantizedArray> array;
    if (Outcome failure =
            QuantizeFile(asked, arguments_.formats, name, operand.path, real, array)) {
      return failure;
    }
    if (arguments_.report_error) {
      if (Outcome failure = KeepFull(operand.path, *real, read)) return failure;
    }
    return Keep(*array, side, operand.path, false, read);
  }

  // `is_full`: the array's values make the unquantized product, which D is compared with.
  Outcome Keep(const client::QuantizedArray& array, client::Side side, const std::string& path,
               bool is_full, Read& read) const {
    absl::StatusOr<client::InlineOperand> operand = ToOperand(array, side);
    if (!operand.ok()) return UsageFailure(absl::StrCat(path, ": ", operand.status().message()));
    read.given = *std::move(operand);
    if (!is_full || !arguments_.report_error) return std::nullopt;
    absl::StatusOr<client::Matrix> values = client::Dequantize(array);
    if (!values.ok()) return UsageFailure(absl::StrCat(path, ": ", values.status().message()));
    read.full = *std::move(values);
    return std::nullopt;
  }

  static Outcome KeepFull(const std::string& path, const client::Matrix& data, Read& read) {
    absl::StatusOr<client::Matrix> full = client::ToF32(data.view());
    if (!full.ok()) {
      return UsageFailure(absl::StrCat("--report-error: ", path, " is ", full.status().message()));
    }
    read.full = *std::move(full);
    return std::nullopt;
  }

  const OperandsArguments& arguments_;
};

// The stack of an operand that is one.
const client::Stack* StackOf(const std::optional<client::Operand>& operand) {
  const auto* const given = operand ? std::get_if<client::InlineOperand>(&*operand) : nullptr;
  if (given == nullptr) return nullptr;
  const client::Stack& stack = given->data.stack();
  return stack.count > 1 || stack.stride != 0 ? &stack : nullptr;
}

// One dimension of the batch, as NumPy broadcasts it: equal counts, or one matrix for all.
Outcome FindBatch(const Read& a, const Read& b, const Read& c,
                  std::optional<client::Batch>& batch) {
  client::Batch found;
  std::string first;  // whose count it is
  for (const auto& [name, read, stride] :
       {std::tuple("A", &a, &found.a_stride), std::tuple("B", &b, &found.b_stride),
        std::tuple("C", &c, &found.c_stride)}) {
    const client::Stack* const stack = StackOf(read->given);
    if (stack == nullptr) continue;
    batch.emplace();
    if (stack->count == 1) continue;
    if (found.count > 1 && stack->count != found.count) {
      return UsageFailure(absl::StrCat(first, " has ", found.count, " matrices and ", name, " ",
                                       stack->count, ": it must be as many, or one"));
    }
    if (found.count == 1) first = name;
    found.count = stack->count;
    *stride = stack->stride;
  }
  if (batch) batch = found;
  return std::nullopt;
}

}  // namespace

Outcome ReadInputs(const OperandsArguments& arguments, std::optional<Inputs>& inputs) {
  const bool quantizes = !arguments.a.quantize.empty() || !arguments.b.quantize.empty();
  if (arguments.choices.are_given() && !quantizes) {
    return UsageFailure("--scale-rule and --stochastic go with --quantize-a or --quantize-b");
  }
  if (arguments.report_error && !quantizes) {
    return UsageFailure("--report-error goes with --quantize-a or --quantize-b");
  }
  const Reader reader(arguments);
  Read a;
  Read b;
  Read c;
  Read bias;
  if (Outcome failure = reader.ReadFactor("a", arguments.a, a)) return failure;
  if (Outcome failure = reader.ReadFactor("b", arguments.b, b)) return failure;
  if (Outcome failure = reader.ReadPlain("c", arguments.c, c)) return failure;
  if (Outcome failure = reader.ReadPlain("bias", arguments.bias, bias)) return failure;
  std::optional<client::Batch> batch;
  if (Outcome failure = FindBatch(a, b, c, batch)) return failure;
  inputs =
      Inputs{{*std::move(a.given), *std::move(b.given), std::move(c.given), std::move(bias.given)},
             batch,
             std::nullopt};
  if (arguments.report_error) {
    inputs->full = client::MatmulInputs{*std::move(a.full), *std::move(b.full)};
    if (c.full) inputs->full->c = *std::move(c.full);
    if (bias.full) inputs->full->bias = *std::move(bias.full);
  }
  return std::nullopt;
}

}  // namespace gemmd::cli
