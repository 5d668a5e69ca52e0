// The operands of gemm matmul: from files, quantized here where that is asked for, or by name.
#pragma once

#include <optional>
#include <string>

#include "client/cli/failure.h"
#include "client/cli/files/operand_file.h"
#include "client/cli/files/quantize_options.h"
#include "client/cli/files/scale_files.h"
#include "client/matmul.h"

namespace gemmd::cli {

struct OperandArguments {
  std::string path;      // or "@HANDLE"; of C and bias empty where there is none
  ScaleFiles scales;     // of A and B alone, as what follows
  std::string quantize;  // a format; empty: as the file is
};

struct OperandsArguments {
  OperandArguments a;
  OperandArguments b;
  OperandArguments c;
  OperandArguments bias;
  OperandFormats formats;
  QuantizeChoices choices;
  bool transpose_a = false;
  bool transpose_b = false;
  bool report_error = false;  // makes ReadInputs() keep what D_full needs
};

struct Inputs {
  client::MatmulInputs given;
  std::optional<client::Batch> batch;  // where a file has three dimensions
  // The inputs in f32, before any was quantized here; a container counts with the values it holds.
  // Present where report_error asks for them.
  std::optional<client::MatmulInputs> full;
};

Outcome ReadInputs(const OperandsArguments& arguments, std::optional<Inputs>& inputs);

}  // namespace gemmd::cli
