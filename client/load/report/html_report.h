// A report as one page to look at.
#pragma once

#include <string>

#include "client/load/report/report.h"

namespace gemmd::load {

// Self-contained: styles inside, charts as SVG, no script, and a policy that forbids the
// browser to load anything. REQUIRES: `report` is as ParseReport accepts it; what is
// missing beyond that is left out.
std::string HtmlReport(const Json& report);

}  // namespace gemmd::load
