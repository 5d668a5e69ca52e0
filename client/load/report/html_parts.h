// Parts of the page of html_report.cc, and what they are made with. Private to it.
#pragma once

#include <string>
#include <vector>

#include "client/load/report/report.h"

namespace gemmd::load {

// A member that need not be there, by value: what a loop runs over must outlive it.
Json Member(const Json& object, const char* name, const Json& fallback);

// A row of a table; `cell` is th or td.
std::string Row(const char* cell, const std::vector<std::string>& cells);

// A table that may be wider than the page.
std::string Wide(const std::string& rows);

// A latency of the point.
double Us(const Json& point, const char* name);

// Returns whether the point was measured in an open loop.
bool IsOpen(const Json& point);

// Charts over the loads of a sweep or a search; empty where there is one load.
std::string SweepHtml(const Json& report);

// Tables of how servers that took turns differ; empty where none did.
std::string ComparisonsHtml(const Json& report);

}  // namespace gemmd::load
