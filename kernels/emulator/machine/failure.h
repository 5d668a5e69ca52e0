// Ends a launch that broke a rule.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/options.h"

namespace gemmd::emulator {

// Ends the launch with a report that names the running thread and the site. The first
// failure of a launch is the one reported. REQUIRES: called while a launch runs, on a
// kernel's fiber or while an asynchronous operation lands.
[[noreturn]] void Fail(Violation violation, const CallSite& site, const std::string& what);

// "shared+48" or "shared+48 of block rank 1".
std::string DescribeShared(std::uint32_t address);

}  // namespace gemmd::emulator
