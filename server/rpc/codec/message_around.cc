#include "server/rpc/codec/message_around.h"

#include <memory>
#include <vector>

namespace gemmd {

grpc::Slice SliceOf(const HostPiece& piece) {
  auto owner = std::make_unique<std::shared_ptr<void>>(piece.owner);
  return grpc::Slice(
      piece.data, piece.size_bytes,
      [](void* shared) { delete static_cast<std::shared_ptr<void>*>(shared); }, owner.release());
}

grpc::ByteBuffer MessageAround(const std::string& head, const HostBuffer& payload) {
  std::vector<grpc::Slice> slices = {grpc::Slice(head)};
  for (const HostPiece& piece : payload) slices.push_back(SliceOf(piece));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace gemmd
