#include "server/cost/transport_model.h"

namespace gemmd {
namespace {

// The bits of the size tell keys apart in the low byte, which also spreads them over sets.
std::uint64_t Key(TransferDirection direction, std::uint64_t bits) {
  return (static_cast<std::uint64_t>(direction) + 1) << 32U | bits;
}

std::uint64_t SizeKey(TransferDirection direction, std::uint64_t bytes) {
  return Key(direction, 64 - static_cast<std::uint64_t>(__builtin_clzll(bytes)));
}

double DefaultUs(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (TransportModel::kDefaultGbps * 1e3);
}

}  // namespace

double TransportModel::PredictUs(TransferDirection direction, std::uint64_t bytes) const {
  if (bytes == 0) return 0;
  for (const std::uint64_t key : {SizeKey(direction, bytes), Key(direction, 0)}) {
    if (const auto ratio = ratios_.Find(key)) return DefaultUs(bytes) * *ratio;
  }
  return DefaultUs(bytes);
}

bool TransportModel::IsMeasured(TransferDirection direction, std::uint64_t bytes) const {
  return bytes == 0 || ratios_.Find(SizeKey(direction, bytes)).has_value();
}

void TransportModel::Observe(TransferDirection direction, std::uint64_t bytes, double us) {
  if (bytes == 0 || us <= 0) return;
  for (const std::uint64_t key : {SizeKey(direction, bytes), Key(direction, 0)}) {
    ratios_.Observe(key, us / DefaultUs(bytes));
  }
}

}  // namespace gemmd
