// Shell completion generated from the command line's own definition, so that the two
// cannot differ.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace gemmd::cli {

std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);

}  // namespace gemmd::cli
