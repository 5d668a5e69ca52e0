// A buffer that holds a charge for its memory.
#pragma once

#include <memory>
#include <utility>

#include "server/device/host_buffer.h"

namespace gemmd {

// Gives the buffer's memory back before it ends the charge.
template <typename Charge>
void Attach(Charge charge, HostBuffer* buffer) {
  struct Held {
    std::shared_ptr<Charge> charge;
    std::shared_ptr<void> memory;  // goes first
  };
  const auto shared = std::make_shared<Charge>(std::move(charge));
  for (HostPiece& piece : *buffer) {
    piece.owner = std::make_shared<Held>(Held{shared, std::move(piece.owner)});
  }
}

}  // namespace gemmd
