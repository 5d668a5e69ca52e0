// One unary product, from its bytes to its answer, in whatever protocol it comes.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/admission/admission.h"
#include "server/observe/statistics.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/reactors/request_reactor.h"

namespace gemmd {

class ProductReactor : public RequestReactor {
 public:
  // They outlive the reactor.
  struct Services {
    Admission* admission = nullptr;
    Statistics* statistics = nullptr;
    const Clock* clock = nullptr;
    // Counts the reactors that live, have their message, and came before the drain.
    std::atomic<int>* active_calls = nullptr;
    CallWatch* watch = nullptr;
  };

  void OnCancel() override { services_.admission->Cancel(request_id_); }

 protected:
  // A request that was decoded. It waits with its call if that waits for memory.
  class Received {
   public:
    explicit Received(const grpc::ByteBuffer& message) : bytes(message), size(message.Length()) {}
    virtual ~Received() = default;
    Received(const Received&) = delete;
    Received& operator=(const Received&) = delete;

    // Copies the payload to where the device takes it from.
    virtual absl::Status CopyTo(InlinePayload* payload) const = 0;

    const ReceivedMessage bytes;
    const std::uint64_t size;
    MatmulCall call;  // without its caller
    RequestTimes times;
  };

  // Starts at once; deletes itself when gRPC is done with it.
  ProductReactor(const Services& services, Tenant tenant, grpc::CallbackServerContext* context);
  ~ProductReactor() override = default;

  // An error ends the call.
  virtual absl::StatusOr<std::unique_ptr<Received>> Decode(const grpc::ByteBuffer& message,
                                                           TimeNs arrival) = 0;
  // The answer. REQUIRES: the outcome is OK.
  virtual grpc::ByteBuffer Encode(const MatmulOutcome& outcome) = 0;
  // It ended so; of a request that was not let in the receipt has nothing.
  virtual void OnProductEnd(const absl::Status& status, const Receipt& receipt) {
    static_cast<void>(status);
    static_cast<void>(receipt);
  }

  const Services& services() const { return services_; }
  const Tenant& tenant() const { return tenant_; }

 private:
  void OnMessage(const grpc::ByteBuffer& message) final;
  void OnNoMessage(absl::StatusCode code) final { without_message_ = code; }
  void OnEnd() final;

  absl::Status Start(const grpc::ByteBuffer& request);
  void OnAdmitted(Received* received, absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted);
  absl::Status Submit(Received* received, std::unique_ptr<AdmittedMatmul> admitted);
  void Refuse(const absl::Status& status);
  void OnFinished(MatmulOutcome outcome);

  const Services services_;
  const Tenant tenant_;
  const bool came_before_drain_;
  const std::uint64_t request_id_;
  bool has_message_ = false;
  absl::StatusCode without_message_ = absl::StatusCode::kCancelled;
  std::uint64_t sent_bytes_ = 0;
  TimeNs send_start_ = 0;
};

}  // namespace gemmd
