// Reads metrics pages back, and is strict: what the forms' documents forbid is an error.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/observe/exposition.h"

namespace gemmd {

struct ReadExemplar {
  std::map<std::string, std::string> labels;
  double value = 0;
};

struct ReadSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
  std::optional<ReadExemplar> exemplar;
};

struct ReadFamily {
  std::string name;
  std::string type;
  std::string unit;
  std::string help;
  std::vector<ReadSample> samples;
};

struct ReadPage {
  std::vector<ReadFamily> families;

  // Null: there is none.
  const ReadFamily* Find(const std::string& name) const;
  // The value of the sample that has these labels among its own; none where it is not one.
  std::optional<double> Value(const std::string& sample,
                              const std::map<std::string, std::string>& labels = {}) const;
};

// INVALID_ARGUMENT names the line and what is wrong with it: a form that is not as documented, a
// name that is not valid, a family or a series that stands twice, samples of a name that its family
// does not have, a unit that the name does not end with, buckets that do not add up.
absl::StatusOr<ReadPage> ReadExposition(const std::string& text, ExpositionForm form);

}  // namespace gemmd
