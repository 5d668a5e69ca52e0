#include "server/admission/operand_copies.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace gemmd {
namespace {

// Copies pass through ordinary memory of the host, of which a larger one would take too much.
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

// Bits may differ between models.
bool AreAlike(const Device& x, const Device& y) {
  return !x.uses_host_memory() && !y.uses_host_memory() && x.traits().kind == y.traits().kind &&
         x.traits().model == y.traits().model;
}

}  // namespace

void ConsiderCopy(const std::vector<RoutedDevice>& route, const RoutedProduct& product, TimeNs now,
                  OperandStore* store) {
  const RoutedDevice& holder = route.front();
  if (store == nullptr || !store->makes_copies() || !holder.is_holder) return;
  const auto found = std::find_if(route.begin(), route.end(), [&](const RoutedDevice& each) {
    return !each.is_holder && AreAlike(*each.device, *holder.device);
  });
  if (found == route.end()) return;
  const RoutedDevice& idle = *found;
  // A product that goes to the other device shortens the holder's queue by its own time. Products
  // whose payload is on its way do not wait for the device.
  const double gain_us =
      std::min(holder.submitted_backlog_us - idle.submitted_backlog_us - Router::kHeadStartUs,
               product.device_us);
  if (!(gain_us > 0)) return;
  std::vector<std::shared_ptr<StoredOperand>> missing = product.residents->MissingOn(*idle.device);
  std::uint64_t bytes = 0;
  for (const auto& each : missing) bytes += each->size_bytes();
  if (bytes == 0 || bytes > kMostBytes) return;
  const double price_us = holder.scheduler->cost().PredictCopyOutUs(bytes) +
                          idle.scheduler->cost().PredictCopyInUs(bytes);
  bool is_due = true;
  for (const auto& each : missing) {
    const double share = static_cast<double>(each->size_bytes()) / static_cast<double>(bytes);
    if (!each->AddCopyDemand(share * gain_us, share * price_us, now)) is_due = false;
  }
  if (!is_due) return;
  OperandCopy copy;
  copy.operands = std::move(missing);
  copy.device = idle.device;
  copy.place = [residents = *product.residents, problem = *product.problem, to = idle.device] {
    std::uint64_t landed_bytes = 0;  // the store counts what lands
    return residents.PlaceOn(to, problem, &landed_bytes).status();
  };
  store->StartCopy(std::move(copy));
}

}  // namespace gemmd
