// One Download: the operand's planes from their own memory, piece by piece.
#pragma once

#include <atomic>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "server/rpc/reactors/request_reactor.h"
#include "server/store/operand_store.h"

namespace gemmd {

class DownloadReactor final : public RequestReactor {
 public:
  // Starts at once; deletes itself when gRPC is done with it. The arguments outlive it.
  // `active_downloads` counts the reactors that live.
  DownloadReactor(OperandStore* store, CallWatch* watch, std::uint64_t chunk_bytes,
                  std::atomic<int>* active_downloads, Tenant tenant,
                  grpc::CallbackServerContext* context)
      : RequestReactor(watch, context),
        store_(store),
        chunk_bytes_(chunk_bytes),
        active_downloads_(active_downloads),
        tenant_(std::move(tenant)) {
    ++*active_downloads_;
  }

  void OnWriteDone(bool ok) override;

 private:
  ~DownloadReactor() override = default;

  void OnMessage(const grpc::ByteBuffer& message) override;
  void OnEnd() override;
  absl::Status Start(const grpc::ByteBuffer& request);
  void Write();
  std::uint64_t HeldBytes() const;

  OperandStore* const store_;
  const std::uint64_t chunk_bytes_;
  std::atomic<int>* const active_downloads_;
  const Tenant tenant_;
  OperandPlanes<HostBuffer> memory_;
  OperandPlanes<std::uint64_t> size_;
  decltype(kPlaneNames)::const_iterator next_ = kPlaneNames.begin();  // what is sent next
  std::uint64_t offset_ = 0;                                          // in it
  grpc::ByteBuffer outgoing_;
};

}  // namespace gemmd
