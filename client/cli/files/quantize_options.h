// The options of commands that quantize, and the matrices that they make of files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/failure.h"
#include "client/cli/files/operand_file.h"
#include "client/matrix.h"
#include "client/quantized/quantize.h"
#include "client/quantized/quantized_array.h"

namespace gemmd::cli {

// The choices by which values become codes; the format is an option by itself.
struct QuantizeChoices {
  ScaleRule scale_rule = ScaleRule::kFloor;
  std::optional<std::uint64_t> seed;  // of stochastic rounding; absent: to nearest

  // Returns whether any differs from these.
  bool are_given() const { return scale_rule != ScaleRule::kFloor || seed.has_value(); }
};

// Adds --scale-rule and --stochastic to that group, or to the options without one. `choices` must
// outlive the parse.
void AddQuantizeChoices(CLI::App& app, QuantizeChoices& choices, const std::string& group);

// Adds an option whose value is a format of base/numbers/quant/README.md. `format` must outlive the
// parse.
CLI::Option* AddQuantFormat(CLI::App& app, const std::string& name, std::string& format,
                            const std::string& description);

// Adds --k-axis, 0 unless given. `k_axis` must outlive the parse.
CLI::Option* AddKAxis(CLI::App& app, client::KAxis& k_axis);

// A matrix that is quantized here.
struct QuantizeAsked {
  std::string option;  // that asks for it: "--quantize-a"
  std::string format;
  client::KAxis k_axis = client::KAxis::kRows;
  QuantizeChoices choices;
};

// The request that was asked for; wrong ones are refused.
Outcome RequestFor(const QuantizeAsked& asked, const OperandFormats& formats,
                   const std::string& operand, const std::string& path,
                   client::QuantizeRequest& request);

// Reads the operand's file of real numbers, .npy or raw, and quantizes what it holds.
Outcome QuantizeFile(const QuantizeAsked& asked, const OperandFormats& formats,
                     const std::string& operand, const std::string& path,
                     std::optional<client::Matrix>& real,
                     std::optional<client::QuantizedArray>& array);

// Returns whether the operand's file is a container (client/quantized/quantized_file.h), or a
// tensor of a quantized form (weights_source.h): not where a raw one was said.
bool IsContainer(const OperandFormats& formats, const std::string& operand,
                 const std::string& path);

// Reads a container, or such a tensor, in its own form. A usage error says how other files are
// quantized, or that they cannot be.
Outcome ReadOwnForm(const std::string& path, std::optional<client::QuantizedArray>& array);

// Reads a container, or such a tensor. The options may not say of the operand what the file says.
Outcome ReadContainer(const OperandFormats& formats, const std::string& operand,
                      const std::string& path, std::optional<client::QuantizedArray>& array);

}  // namespace gemmd::cli
