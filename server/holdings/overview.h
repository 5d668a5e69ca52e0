// The holdings of a whole server, for those who watch it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/holdings/ledger.h"

namespace gemmd {

// Thread-safe once all was added.
class HoldingsOverview {
 public:
  // As Ledger::Read().
  using Read = std::function<std::vector<Holding>(std::size_t most)>;

  // `device`: that all of it is of; empty: of none.
  void Add(Read read, std::string device = "") {
    sources_.emplace_back(std::move(device), std::move(read));
  }
  // The ledger outlives this.
  void Add(const Ledger& ledger, std::string device = "") {
    Add([&ledger](std::size_t most) { return ledger.Read(most); }, std::move(device));
  }

  // In the order in which it was added.
  std::vector<Holding> All(std::size_t most) const {
    std::vector<Holding> all;
    for (const auto& [device, read] : sources_) {
      for (Holding& each : read(most)) {
        each.device = device;
        all.push_back(std::move(each));
      }
    }
    return all;
  }

 private:
  std::vector<std::pair<std::string, Read>> sources_;
};

}  // namespace gemmd
