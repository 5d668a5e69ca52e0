// A product's receipt, for people and for programs.
#pragma once

#include <string>

#include "client/matmul.h"
#include "client/quantized/product_error.h"
#include "client/split/split_matmul.h"
#include "nlohmann/json.hpp"

namespace gemmd::cli {

// Returns a table of what computed it, then every stage with its start and end on its own side's
// clock and the time it alone accounts for; those times sum to the client's total.
std::string Report(const client::Product& product, const std::string& output_path);

nlohmann::ordered_json ReportJson(const client::Product& product, const std::string& output_path);

// A product over several servers has a row, or an object, for each part.
std::string Report(const client::SplitProduct& product, const std::string& output_path);
nlohmann::ordered_json ReportJson(const client::SplitProduct& product,
                                  const std::string& output_path);

// The answers to --report-error: a line, and an object. Errors that are not finite are null there.
std::string Describe(const client::ProductError& error);
nlohmann::ordered_json ToJson(const client::ProductError& error);

}  // namespace gemmd::cli
