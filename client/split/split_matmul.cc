#include "client/split/split_matmul.h"

#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "client/split/splitting.h"
#include "client/wire/codec.h"

namespace gemmd::client {
namespace {

// The servers that parts may go to: those that serve, or all where none is known to.
std::vector<std::string> ServersOf(const Client& client) {
  std::vector<std::string> serving;
  std::vector<std::string> every;
  for (ServerState& state : client.States()) {
    every.push_back(state.name);
    const bool serves = state.health != Health::kNotServing && !state.is_ejected;
    if (serves) serving.push_back(std::move(state.name));
  }
  if (!serving.empty()) return serving;
  // A call to no server says why there is none.
  if (every.empty()) every.emplace_back();
  return every;
}

}  // namespace

double SplitProduct::flops() const {
  return std::accumulate(parts.begin(), parts.end(), 0.0, [](double sum, const SplitPart& part) {
    return sum + part.receipt.server.flops();
  });
}

absl::StatusOr<SplitProduct> SplitMatmul(Client& client, const MatmulInputs& inputs,
                                         const MatmulOptions& options, const CallOptions& call,
                                         const SplitPolicy& policy) {
  if (absl::Status status = CheckSplit(inputs, options); !status.ok()) return status;
  if (!call.server.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("server is ", Quoted(call.server),
                     ": a product that is split goes to several; it must be empty"));
  }
  const std::vector<std::string> servers = ServersOf(client);
  const std::vector<RowRange> rows =
      CutRows(inputs, options, static_cast<int>(servers.size()), policy.cut);
  std::vector<std::shared_ptr<const EncodedMatmul>> parts;
  parts.reserve(rows.size());
  for (const RowRange& each : rows) {
    absl::StatusOr<MatmulInputs> part = InputsOf(inputs, options, each);
    if (!part.ok()) return part.status();
    parts.push_back(Encode(*std::move(part), options));
  }
  const bool knows_columns = FormatOf(inputs.b) != nullptr;
  return std::make_shared<Splitting>(client, call, policy.hedge, rows, servers, knows_columns)
      ->Run(parts);
}

}  // namespace gemmd::client
