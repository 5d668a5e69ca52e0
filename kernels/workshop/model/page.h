// The page of the model's figures (docs/lab/mxfp8-schedule.md): its tables are this program's
// output, between marks, so that no figure is typed.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/workshop/model/evaluation.h"

namespace gemmd::model {

// Each table in Markdown by its name: steps, binds, gains, ranks, traffic, variants, shapes.
std::map<std::string, std::string> Tables(const Evaluation& evaluation);

// The page with what stands between "<!-- model: NAME -->" and "<!-- end -->" made anew.
// kInvalidArgument naming the table where a mark names none or has no end, or where a table has no
// mark.
absl::StatusOr<std::string> FillPage(const std::string& page,
                                     const std::map<std::string, std::string>& tables);

}  // namespace gemmd::model
