// Matrices that a server keeps, and products with them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/matmul.h"
#include "client/operand_source.h"
#include "gemmd/v1/operands.pb.h"

namespace gemmd::client {

// One that is on the server, by name: nothing brings it back should it be lost.
struct OperandName {
  std::string handle;  // one of both
  std::string digest;  // 32 bytes
};

// "a1b2c3d4-7" is a handle, 64 hexadecimal digits are a digest.
OperandName ParseOperandName(absl::string_view text);

// What a product is made of: a matrix that goes along with the request; one that stays on the
// server, and is uploaded where it is not there; or one that is there.
struct InlineOperand {
  Matrix data;
  std::optional<Matrix> scales = std::nullopt;
};
using OperandInput = std::variant<InlineOperand, OperandSource, OperandName>;

struct OperandInputs {
  OperandInput a;
  OperandInput b;
  std::optional<OperandInput> c = std::nullopt;
  std::optional<OperandInput> bias = std::nullopt;
};

// How long an operand is safe from eviction after each use; absent: the server's default.
using Lease = std::optional<absl::Duration>;

struct KeptOrSent {
  std::optional<Matrix> d;  // absent: it stays on the server
  std::string handle;       // of one that stays
  MatrixFormat format;
  Receipt receipt;
};

// A server's operands as the channel's tenant sees them. Thread-safe. Every method waits for the
// server, and tries again as the options' retry policy says; that is also how long a server's
// restart may take.
class Operands {
 public:
  explicit Operands(const ClientOptions& options);
  ~Operands();
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  // Uploads what the server does not have of it. A broken upload goes on where it ended.
  absl::StatusOr<v1::ResidentOperand> Put(const OperandSource& source, const Lease& lease = {},
                                          const CallOptions& call = {});

  // Brings it here. INTERNAL also where what came has another digest than was asked for.
  absl::StatusOr<InlineOperand> Get(const OperandName& name, const CallOptions& call = {});

  absl::StatusOr<v1::ResidentOperand> Describe(const OperandName& name,
                                               const CallOptions& call = {});
  absl::StatusOr<std::vector<v1::ResidentOperand>> List(const CallOptions& call = {});
  absl::Status Release(const OperandName& name, const CallOptions& call = {});
  // What remains of the lease.
  absl::StatusOr<absl::Duration> Renew(const OperandName& name, const Lease& lease = {},
                                       const CallOptions& call = {});

  // One product. Sources that the server does not have are uploaded, and then it is asked again:
  // a server that was restarted is refilled without its callers noticing. Matrices that
  // would not fit a message are uploaded too.
  absl::StatusOr<KeptOrSent> Matmul(OperandInputs inputs, const MatmulOptions& options = {},
                                    const CallOptions& call = {});
  // The same, and D stays on the server.
  absl::StatusOr<KeptOrSent> MatmulAndKeep(OperandInputs inputs, const MatmulOptions& options = {},
                                           const Lease& lease = {}, const CallOptions& call = {});

 private:
  struct Link;

  absl::StatusOr<KeptOrSent> Multiply(OperandInputs inputs, const MatmulOptions& options,
                                      const std::optional<Lease>& keep, const CallOptions& call);

  const std::unique_ptr<Link> link_;
};

}  // namespace gemmd::client
