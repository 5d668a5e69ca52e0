// A buffer that keeps what is held for its memory.
#pragma once

#include <memory>
#include <utility>

#include "server/device/host_buffer.h"
#include "server/device/keep_with.h"
#include "server/holdings/ledger.h"

namespace gemmd {

// Gives the buffer's memory back before it ends the hold.
inline void Attach(Hold hold, HostBuffer* buffer) {
  const auto shared = std::make_shared<Hold>(std::move(hold));
  for (HostPiece& piece : *buffer) piece = KeepWith(shared, std::move(piece));
}

}  // namespace gemmd
