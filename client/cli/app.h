// The command line `gemm`, from arguments to exit code.
#pragma once

namespace gemmd::cli {

// Results go to standard output; an error goes to standard error as one line
// "gemm: WHAT: WHY", and with --json to standard output as an object too.
int Run(int argc, const char* const* argv);

}  // namespace gemmd::cli
