// A handle to a product under way, as Client::MatmulAsync() gives it.
#pragma once

namespace gemmd::client {

// A product that was asked for. Thread-safe; may be dropped at any time.
class PendingMatmul {
 public:
  virtual ~PendingMatmul() = default;
  // Ends it with CANCELLED, unless its end is already on its way. Other products go on.
  virtual void Cancel() = 0;
};

}  // namespace gemmd::client
