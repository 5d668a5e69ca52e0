// A buffer that holds a charge for its memory.
#pragma once

#include <memory>
#include <utility>

#include "server/device/host_buffer.h"
#include "server/device/keep_with.h"

namespace gemmd {

// Gives the buffer's memory back before it ends the charge.
template <typename Charge>
void Attach(Charge charge, HostBuffer* buffer) {
  const auto shared = std::make_shared<Charge>(std::move(charge));
  for (HostPiece& piece : *buffer) piece = KeepWith(shared, std::move(piece));
}

}  // namespace gemmd
