// Files of scales, zero points, offsets and the scale of the tensor that an operand has.
#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "base/numbers/quant/quant_format.h"
#include "client/cli/failure.h"
#include "client/wire/inline_operand.h"

namespace gemmd::cli {

// Paths of .npy files; empty: there is none.
struct ScaleFiles {
  std::string scales;
  std::string zero_points;
  std::string tensor_scale;
  std::string offsets;

  bool empty() const {
    return scales.empty() && zero_points.empty() && tensor_scale.empty() && offsets.empty();
  }
};

// Adds --PREFIXscales, --PREFIXzero-points, --PREFIXtensor-scale and --PREFIXoffsets to that group,
// or to the options without one. `line` is what has a scale of its own: "row of op(A)".
void AddScaleFiles(CLI::App& app, const std::string& prefix, const std::string& line,
                   ScaleFiles& files, const std::string& group);

// Reads the operand's files. `format` is the one that its --type names, if any: all files of that
// format must be there. Without it, or where its scales are of whole lines, scales are one or a
// vector, a column or a row. `prefix` is AddScaleFiles()'s.
Outcome ReadScaleFiles(const ScaleFiles& files, const std::string& prefix,
                       const std::optional<QuantFormat>& format, bool is_tiled, bool is_column,
                       client::InlineOperand& operand);

}  // namespace gemmd::cli
