// Who is told of each request that was let in, at its end.
#pragma once

#include "absl/status/status.h"
#include "server/observe/receipt.h"

namespace gemmd {

class ReceiptSink {
 public:
  virtual ~ReceiptSink() = default;
  // On the thread that answers the request: it must not block. OK: the receipt is finished; else it
  // is as far as the request came, and has no finish.
  virtual void Take(absl::StatusCode code, const Receipt& receipt) = 0;
};

}  // namespace gemmd
