#include "server/rpc/caller.h"

#include <functional>

#include "server/rpc/peer.h"

namespace gemmd {

Caller CallerOf(const grpc::ServerContextBase& context) {
  const std::string peer = context.peer();
  return {std::hash<std::string>()(peer), AddressOf(peer)};
}

}  // namespace gemmd
