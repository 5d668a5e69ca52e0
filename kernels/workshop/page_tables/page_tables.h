// Pages with tables that programs of the workshop make, between marks, so that no figure is typed.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace gemmd::page_tables {

// The page with what stands between "<!-- table: NAME -->" and "<!-- end -->" made anew: each table
// in Markdown, by its name.
// INVALID_ARGUMENT naming the table: a mark names none or has no end, or a table has no mark.
absl::StatusOr<std::string> FillPage(const std::string& page,
                                     const std::map<std::string, std::string>& tables);

// Fills the tables of a file as FillPage() does, for a program whose one argument is the page's
// path. Returns the program's exit status.
int WritePage(int argc, char** argv, const std::map<std::string, std::string>& tables);

}  // namespace gemmd::page_tables
