#include "kernels/workshop/model/rank_correlation.h"

#include <cmath>
#include <cstddef>

namespace gemmd::model {
namespace {

std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    double below = 0;
    double equal = 0;
    for (const double other : values) {
      below += other < value ? 1 : 0;
      equal += other == value ? 1 : 0;
    }
    ranks.push_back(below + (equal + 1) / 2);
  }
  return ranks;
}

}  // namespace

double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = RanksOf(a);
  const std::vector<double> y = RanksOf(b);
  const double mean = (static_cast<double>(x.size()) + 1) / 2;
  double xy = 0;
  double xx = 0;
  double yy = 0;
  for (std::size_t at = 0; at < x.size(); ++at) {
    xy += (x[at] - mean) * (y[at] - mean);
    xx += (x[at] - mean) * (x[at] - mean);
    yy += (y[at] - mean) * (y[at] - mean);
  }
  return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(xx * yy);
}

}  // namespace gemmd::model
