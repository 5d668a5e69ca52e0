// What payload takes between client and server, as the server has seen it.
#pragma once

#include <cstdint>

#include "server/cost/ratio_table.h"

namespace gemmd {

enum class TransferDirection : std::uint8_t { kReceive, kSend };

// Transfers are alike by direction and by the power of two of their bytes; of a size that was
// not seen, the direction's others serve. Before any: 1 GB/s, which is about what one
// connection carries over loopback. It does not tell clients apart. Thread-safe.
class TransportModel {
 public:
  static constexpr double kDefaultGbps = 1;

  TransportModel() : ratios_(kCapacity) {}

  // 0 for no bytes.
  double PredictUs(TransferDirection direction, std::uint64_t bytes) const;
  // Whether the prediction stands on measurements of transfers of that size.
  bool IsMeasured(TransferDirection direction, std::uint64_t bytes) const;

  void Observe(TransferDirection direction, std::uint64_t bytes, double us);

 private:
  static constexpr std::size_t kCapacity = 512;

  RatioTable ratios_;
};

}  // namespace gemmd
