// The tables of the model's page (docs/lab/mxfp8-schedule.md).
#pragma once

#include <map>
#include <string>

#include "kernels/workshop/model/evaluation.h"

namespace gemmd::model {

// Each table in Markdown by its name: steps, binds, gains, ranks, instructions,
// instruction-ranks, stores, traffic, variants, shapes.
std::map<std::string, std::string> Tables(const Evaluation& evaluation);

}  // namespace gemmd::model
