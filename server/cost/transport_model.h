// Predicts the time of payload between client and server, from the transfers that the server has
// seen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "server/cost/time_curve.h"

namespace gemmd {

enum class TransferDirection : std::uint8_t { kReceive, kSend };

// Times of transfers by direction, as a function of their bytes (TimeCurve). Before any: 1 GB/s,
// which is about what one connection carries over loopback. It does not tell clients apart.
// Thread-safe.
class TransportModel {
 public:
  static constexpr double kDefaultGbps = 1;
  static double DefaultUs(std::uint64_t bytes) {
    return static_cast<double>(bytes) / (kDefaultGbps * 1e3);
  }

  // 0 for no bytes.
  double PredictUs(TransferDirection direction, std::uint64_t bytes) const;
  // Returns whether the prediction stands on measurements of transfers of about that size.
  bool IsMeasured(TransferDirection direction, std::uint64_t bytes) const;

  void Observe(TransferDirection direction, std::uint64_t bytes, double us);

 private:
  TimeCurve& CurveOf(TransferDirection direction) {
    return curves_[static_cast<std::size_t>(direction)];
  }
  const TimeCurve& CurveOf(TransferDirection direction) const {
    return curves_[static_cast<std::size_t>(direction)];
  }

  std::array<TimeCurve, 2> curves_;
};

}  // namespace gemmd
