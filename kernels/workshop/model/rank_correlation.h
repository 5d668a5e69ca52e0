// Spearman's rank correlation: Pearson's of the ranks, equal values having the mean of theirs.
#pragma once

#include <vector>

namespace gemmd::model {

// From -1 to 1; 0 where all values of one side are equal.
// REQUIRES: equally many of both, at least two.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace gemmd::model
