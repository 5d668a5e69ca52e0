// The handles of gemmd.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/c/calls_under_way.h"
#include "client/client.h"
#include "client/include/gemmd/gemmd.h"
#include "client/operands.h"
#include "client/weights/weight_file.h"
#include "client/weights/weight_form.h"

struct gemmd_client {
  gemmd_client(const gemmd::client::ClientOptions& options, absl::Duration default_timeout)
      : timeout(default_timeout), client(options), operands(options) {}

  const absl::Duration timeout;
  // Shared with the calls, of which the last one to end tells the one that frees the client.
  const std::shared_ptr<gemmd::client::c::CallsUnderWay> calls =
      std::make_shared<gemmd::client::c::CallsUnderWay>();
  gemmd::client::Client client;
  gemmd::client::Operands operands;
};

struct gemmd_matrix {
  std::optional<gemmd::client::OperandSource> source;  // of one that was put; brings it back
  gemmd::client::MatrixFormat format;
  std::string handle;
  std::string digest;  // in hexadecimal
};

struct gemmd_result {
  std::optional<gemmd::client::Matrix> matrix;
  std::string handle;  // of a D that stays
  gemmd::client::MatrixFormat format;
  std::optional<gemmd::client::Receipt> receipt;
  std::string receipt_json;
  std::string response;  // gemmd.v1.MatmulResponse, of a product that was encoded
};

struct gemmd_call {
  std::shared_ptr<gemmd::client::c::Flight> flight;
};

// Strings and shapes that gemmd_weights_info() points to.
struct gemmd_weights {
  struct About {
    gemmd::client::WeightForm form;
    std::string refusal;
    std::vector<std::int64_t> shape;
  };
  gemmd::client::WeightFile file;
  std::vector<About> about;  // of each tensor of the file, in its order
};

struct gemmd_tensor {
  std::string form;
  gemmd::client::InlineOperand operand;
};

struct gemmd_server_info {
  std::string version;
  std::vector<std::string> devices;
  std::string json;
};

namespace gemmd::client::c {

// True on a thread that is in a callback of gemmd_matmul_async().
bool IsInCallback();

// Marks this thread as one in a callback.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  const bool before_;
};

// A call that waits, as its client counts it. FAILED_PRECONDITION in a callback.
class WaitingCall {
 public:
  static absl::StatusOr<WaitingCall> Begin(gemmd_client* client);
  WaitingCall(WaitingCall&&) = default;
  WaitingCall& operator=(WaitingCall&&) = delete;
  ~WaitingCall() {
    if (flight_ != nullptr) calls_->End(flight_);
  }

 private:
  WaitingCall(std::shared_ptr<CallsUnderWay> calls, std::shared_ptr<Flight> flight)
      : calls_(std::move(calls)), flight_(std::move(flight)) {}

  std::shared_ptr<CallsUnderWay> calls_;
  std::shared_ptr<Flight> flight_;
};

}  // namespace gemmd::client::c
