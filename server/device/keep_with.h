// Ties an account to the memory that it counts.
#pragma once

#include <memory>
#include <utility>

#include "server/device/host_buffer.h"

namespace gemmd {

// The pointer, which keeps `held` for as long as what it points to lives, and a moment longer: an
// account that counts memory is `held` by each pointer to it, so that whoever has the memory last
// is who gives the account back.
template <typename T>
std::shared_ptr<T> KeepWith(std::shared_ptr<const void> held, std::shared_ptr<T> pointer) {
  struct Both {
    std::shared_ptr<const void> held;
    std::shared_ptr<T> pointer;  // goes first
  };
  T* const target = pointer.get();
  auto both = std::make_shared<Both>(Both{std::move(held), std::move(pointer)});
  return std::shared_ptr<T>(std::move(both), target);
}

inline HostPiece KeepWith(std::shared_ptr<const void> held, HostPiece piece) {
  piece.owner = KeepWith<void>(std::move(held), std::move(piece.owner));
  return piece;
}

}  // namespace gemmd
