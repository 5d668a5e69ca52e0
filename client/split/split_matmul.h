// One product over several servers, each of which computes some of its rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/matmul.h"
#include "client/matrix.h"
#include "client/options.h"
#include "client/split/cut_rows.h"
#include "client/split/split_run.h"

namespace gemmd::client {

struct SplitPolicy {
  CutPolicy cut;
  HedgePolicy hedge;
};

// A part of D, and how it came.
struct SplitPart {
  RowRange rows;
  bool is_hedged = false;  // it was asked for at a second server too
  int repeats = 0;         // attempts more, because the numerics id was another
  // It was received apart: another answer might still be written to its rows, or B's format was not
  // known.
  bool was_copied = false;
  Receipt receipt;  // of the answer that was taken; the server is its address
};

struct SplitProduct {
  Matrix d;
  std::vector<SplitPart> parts;
  absl::Duration total;

  // The one that all parts have.
  const std::string& numerics_id() const { return parts.front().receipt.server.numerics_id(); }
  double flops() const;
};

// Splits the rows among the client's servers that serve, one part each, and waits for all of them.
// Each part is a product as Client::Matmul() sends it, with its own route and retries, all within
// the call's deadline; it begins at its own server, and goes elsewhere where that one is away. Its
// rows are received where they lie in D. D has the bits of one server's: where numerics ids differ,
// the fewer rows are computed anew elsewhere, or the product is FAILED_PRECONDITION. A part that
// takes long is asked for at another server as well.
//
// B and the bias go along with each part, or, as OperandSources, once to each server that does not
// have them. A and C go along. CheckSplit() has the rest of what is refused. An error is a part's:
// it says which rows, and ends the others.
absl::StatusOr<SplitProduct> SplitMatmul(Client& client, const MatmulInputs& inputs,
                                         const MatmulOptions& options = {},
                                         const CallOptions& call = {},
                                         const SplitPolicy& policy = {});

}  // namespace gemmd::client
