// One Download: the operand's planes from their own memory, piece by piece.
#pragma once

#include <array>

#include "grpcpp/grpcpp.h"
#include "server/store/operand_store.h"

namespace gemmd {

class DownloadReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // Starts at once; deletes itself when gRPC is done with it. The store outlives it.
  DownloadReactor(OperandStore* store, std::uint64_t chunk_bytes,
                  grpc::CallbackServerContext* context, const grpc::ByteBuffer* request);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  ~DownloadReactor() override = default;

  absl::Status Start(const grpc::ByteBuffer& request);

  OperandStore* const store_;
  const std::uint64_t chunk_bytes_;
  grpc::CallbackServerContext* const context_;
  std::array<HostBuffer, kStoredPlanes> memory_;
  std::array<std::uint64_t, kStoredPlanes> size_{};
  std::size_t plane_ = 0;     // what is sent next
  std::uint64_t offset_ = 0;  // in it
  grpc::ByteBuffer outgoing_;
};

}  // namespace gemmd
