// Where a command writes a matrix or a text: a file, or standard output where the path is "-".
#pragma once

#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/failure.h"
#include "client/matrix.h"

namespace gemmd::cli {

// Returns whether the path is "-" or leads to the file that standard output is, as /dev/stdout
// does: what is printed would mix with what is written there.
bool IsStandardOutput(const std::string& path);

// Returns the path under which to write: "-" for every path of standard output. "-" goes on where
// standard output is, but a file that is opened by its name begins anew.
std::string PathToWrite(const std::string& path);

// Checks whether the path can be expected to take what a command makes; an empty one is not asked
// for. Standard output takes nothing else, so that --json excludes it.
Outcome CheckOutput(const std::string& path, bool json);

// A matrix as .npy, a stack as one of three dimensions, or a text; nothing where the path is empty.
Outcome WriteOutput(const std::string& path, const client::MatrixView& matrix);
Outcome WriteStack(const std::string& path, const client::Matrix& stack);
Outcome WriteOutput(const std::string& path, absl::string_view text);

// Prints what goes with the outputs at `paths`: to standard error where one of them has standard
// output.
void PrintBeside(const std::string& text, std::initializer_list<std::string> paths);

}  // namespace gemmd::cli
