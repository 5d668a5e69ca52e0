// gemmd.v1.Operands. Thin: decode, call the store, encode.
#pragma once

#include <atomic>

#include "gemmd/v1/operands.grpc.pb.h"
#include "server/admission/validation.h"
#include "server/rpc/services/raw_service.h"
#include "server/scheduling/router.h"
#include "server/store/operand_store.h"

namespace gemmd {

class OperandsService final : public RawService<v1::Operands> {
 public:
  // All outlive the service. `chunk_bytes`: of downloads.
  OperandsService(OperandStore* store, const Router* router, const Door& door,
                  const RequestLimits& limits, std::uint64_t chunk_bytes);

  // Sets the size of chunks in downloads that begin from here on.
  void SetChunkBytes(std::uint64_t bytes) { chunk_bytes_ = bytes; }

  // Uploads and downloads that gRPC is not done with; of uploads those that have begun.
  int active_uploads() const { return active_uploads_; }
  int active_downloads() const { return active_downloads_; }

 private:
  // A method that answers with function(store, tenant, request).
  template <typename Request, typename Function>
  void ServeUnary(const char* method, Function function);

  OperandStore* const store_;
  const Router* const router_;
  CallWatch* const watch_;
  const RequestLimits limits_;
  std::atomic<std::uint64_t> chunk_bytes_;
  std::atomic<int> active_uploads_{0};
  std::atomic<int> active_downloads_{0};
};

}  // namespace gemmd
