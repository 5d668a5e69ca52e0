// Tensors of files of weights (client/weights) as operands of commands: FILE:NAME, FILE:NAME[3] of
// a stack, or FILE where it has one matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/failure.h"
#include "client/weights/weight_file.h"
#include "client/weights/weight_form.h"

namespace gemmd::cli {

struct WeightsPath {
  std::string file;
  std::optional<std::string> tensor;
};

// A file named with its tensor goes before one whose own name has a colon and is not there. Null:
// the path leads to no file of weights, or to a container of `gemm quantize`, which is read by
// client/quantized.
std::optional<WeightsPath> FindWeights(const std::string& path);

// Keeps the last one that was opened, whose header may be long. From the first on, a file that is
// cut by others while it is read ends the process with a line that says so.
Outcome OpenWeights(const std::string& path, std::shared_ptr<const client::WeightFile>& file);

// Returns whether it is a quantized operand, and not a matrix. False where it has no form:
// ReadWeight() says why.
bool IsQuantized(const WeightsPath& path);

// Gives back the memory of the tensor's bytes in the file where it was decoded of them.
Outcome ReadWeight(const WeightsPath& path, std::optional<client::WeightOperand>& operand);

// Gives back the memory of a tensor's bytes in the file, after its last use: a model is larger than
// what a client should take. Does nothing where there is none.
void ReleaseWeight(const WeightsPath& path);

// The tensors of a file whose names begin with `prefix`; of stacks, each matrix.
struct WeightsNames {
  struct Tensor {
    std::string name;
    std::uint64_t size_bytes = 0;  // in its form
    std::uint64_t read_bytes = 0;  // of the file that are in memory besides, while it is decoded
  };
  std::vector<Tensor> with_form;
  std::vector<std::pair<std::string, std::string>> refused;  // the others, with the reason
};
Outcome ListWeights(const std::string& path, const std::string& prefix, WeightsNames& names);

}  // namespace gemmd::cli
