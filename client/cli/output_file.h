// Where a command writes a matrix: a file, or standard output where the path is "-".
#pragma once

#include <initializer_list>
#include <string>

#include "client/cli/failure.h"
#include "client/matrix.h"

namespace gemmd::cli {

bool IsStandardOutput(const std::string& path);

// Checks whether the path can be expected to take a matrix; an empty one is not asked for. Standard
// output takes nothing else, so that --json excludes it.
Outcome CheckOutput(const std::string& path, bool json);

// As .npy; nothing where the path is empty.
Outcome WriteOutput(const std::string& path, const client::MatrixView& matrix);

// Prints what goes with the matrices of `paths`: to standard error where one of them has
// standard output.
void PrintBeside(const std::string& text, std::initializer_list<std::string> paths);

}  // namespace gemmd::cli
