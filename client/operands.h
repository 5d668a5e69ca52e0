// Matrices that a server keeps. Client multiplies them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/operand.h"
#include "client/options.h"
#include "client/wire/operand_source.h"
#include "gemmd/v1/operands.pb.h"

namespace gemmd::client {

struct TourPlan;

// A server's operands as the channel's tenant sees them. Thread-safe. Every method waits for the
// server, and tries again as the options' retry policy says; that is also how long a server's
// restart may take.
//
// With several servers an upload goes to the one that products with this operand go to, and stays
// there; another one takes it where that one is away. An operand that is called by a handle,
// a digest or a name is looked for on each of them, until one has it.
class Operands {
 public:
  explicit Operands(const ClientOptions& options);
  ~Operands();
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  // Called by several threads with the number of bytes of an upload that went. Bytes that a further
  // attempt sends again count again.
  using Sent = std::function<void(std::uint64_t)>;

  // Uploads what the server does not have of it. A broken upload goes on where it ended.
  absl::StatusOr<v1::ResidentOperand> Put(const OperandSource& source, const Lease& lease = {},
                                          const CallOptions& call = {}, const Sent& sent = {});

  // Uploads an f32, f16 or bf16 matrix that the server quantizes as it arrives: `stored_form` has
  // the planes to keep, as UploadRequest.Begin says. The answer has the operand that is kept and
  // the bytes that it saves. A broken upload begins anew.
  absl::StatusOr<v1::UploadResponse> PutAs(const OperandSource& source,
                                           const v1::Operand& stored_form, const Lease& lease = {},
                                           const CallOptions& call = {}, const Sent& sent = {});

  // Brings it here. INTERNAL also where what came has another digest than was asked for.
  absl::StatusOr<InlineOperand> Get(const OperandName& name, const CallOptions& call = {});

  absl::StatusOr<v1::ResidentOperand> Describe(const OperandName& name,
                                               const CallOptions& call = {});
  // Those of each server, one server after another; an error where one of them is away.
  absl::StatusOr<std::vector<v1::ResidentOperand>> List(const CallOptions& call = {});
  // Those of every tenant, for operators.
  absl::StatusOr<std::vector<v1::ResidentOperand>> ListAll(const CallOptions& call = {});
  // Gives it one more name; with `replace` another operand loses the name, in one step.
  // ALREADY_EXISTS: another has it. With several servers, for a
  // moment two of them may have an operand of that name.
  absl::StatusOr<v1::SetNameResponse> SetName(const OperandName& operand,
                                              const std::string& new_name, bool replace = false,
                                              const CallOptions& call = {});
  // Forgets it; by one of its several names, that name alone. Every server that has it does.
  absl::Status Release(const OperandName& name, const CallOptions& call = {});
  // Returns what remains of the lease.
  absl::StatusOr<absl::Duration> Renew(const OperandName& name, const Lease& lease = {},
                                       const CallOptions& call = {});

  // The servers as these calls see them.
  std::vector<ServerState> States() const;

 private:
  absl::StatusOr<std::vector<v1::ResidentOperand>> ListBy(const char* method,
                                                          const CallOptions& call);
  // Asks one server after another, as the plan has it, until one answers.
  template <typename Result, typename Ask>
  absl::StatusOr<Result> AskOne(TourPlan plan, absl::Time deadline, const Ask& ask);
  // Moves a name away from every other server than the one that answered: replaces it, or refuses.
  absl::Status CheckNameElsewhere(const OperandName& operand, const std::string& name, bool replace,
                                  const std::string& home, absl::Time deadline);

  struct Connection;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace gemmd::client
