// One stream of Upload, from its Begin to its answer.
#pragma once

#include <atomic>
#include <memory>

#include "base/sync/mutex.h"
#include "grpcpp/grpcpp.h"
#include "server/admission/validation.h"
#include "server/observe/progress.h"
#include "server/rpc/calls/call_watch.h"
#include "server/scheduling/router.h"
#include "server/store/operand_store.h"

namespace gemmd {

class UploadReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            private WatchedCall {
 public:
  // Starts at once; deletes itself when gRPC is done with it. The arguments outlive it.
  // `active_uploads` counts the reactors that have a Begin.
  UploadReactor(OperandStore* store, const Router* router, CallWatch* watch,
                const RequestLimits& limits, std::atomic<int>* active_uploads, Tenant tenant,
                grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;
  void OnDone() override;

 private:
  ~UploadReactor() override = default;

  // Takes one message. OK, and stream_->resident(): nothing more is needed.
  absl::Status Handle(const grpc::ByteBuffer& bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the call answered once the operand has been quantized. False: it is not being quantized.
  bool AwaitsEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndOf(const absl::Status& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TimeNs OnLate(TimeNs now) override;

  OperandStore* const store_;
  const Router* const router_;
  CallWatch* const watch_;
  const RequestLimits limits_;
  std::atomic<int>* const active_uploads_;
  grpc::CallbackServerContext* const context_;
  const Tenant tenant_;

  Mutex mutex_;
  Progress progress_ ABSL_GUARDED_BY(mutex_);
  bool is_answered_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t saved_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::ByteBuffer incoming_ ABSL_GUARDED_BY(mutex_);  // of the read under way
  grpc::ByteBuffer response_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<OperandStore::UploadStream> stream_ ABSL_GUARDED_BY(mutex_);  // null before Begin
};

}  // namespace gemmd
