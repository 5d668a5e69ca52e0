#include "server/cost/transport_model.h"

#include <optional>

namespace gemmd {

double TransportModel::PredictUs(TransferDirection direction, std::uint64_t bytes) const {
  if (bytes == 0) return 0;
  const double default_us = DefaultUs(bytes);
  const std::optional<TimeCurve::Point> point = CurveOf(direction).Predict(default_us);
  return point.has_value() ? point->us : default_us;
}

bool TransportModel::IsMeasured(TransferDirection direction, std::uint64_t bytes) const {
  if (bytes == 0) return true;
  const std::optional<TimeCurve::Point> point = CurveOf(direction).Predict(DefaultUs(bytes));
  return point.has_value() && point->is_near;
}

void TransportModel::Observe(TransferDirection direction, std::uint64_t bytes, double us) {
  if (bytes == 0 || us <= 0) return;
  CurveOf(direction).Observe(DefaultUs(bytes), us);
}

}  // namespace gemmd
