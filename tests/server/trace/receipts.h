// Receipts for tests of what is made of them.
#pragma once

#include <cstdint>

#include "server/observe/receipt.h"

namespace gemmd::testing {

// One that ended OK, with a stage of each kind.
inline Receipt SomeReceipt(std::uint64_t id = 7) {
  Receipt receipt;
  receipt.request_id = id;
  receipt.arrival = 1'000'000'000;
  receipt.finish = 1'000'900'000;
  TimeNs at = receipt.arrival;
  for (std::size_t i = 0; i < kStageCount; ++i) {
    receipt.spans.push_back({static_cast<Stage>(i), at, at + 50'000});
    at += 40'000;
  }
  receipt.tenant = "alice";
  receipt.device = "cpu";
  receipt.kernel = "cpu/panel_f32";
  receipt.plan = "tile 64x512";
  receipt.numerics_id = "n1";
  receipt.batch_requests = 3;
  receipt.batch_rows = 12;
  receipt.launch = 5;
  receipt.connection = 0x8877665544332211;
  receipt.flops = 1.5e9;
  receipt.batch_flops = 4.5e9;
  receipt.payload_bytes_in = 1 << 20;
  receipt.payload_bytes_out = 4096;
  receipt.shared_bytes_in = 1;
  receipt.shared_bytes_out = 2;
  receipt.copied_bytes_in = 3;
  receipt.copied_bytes_out = 4;
  receipt.landed_bytes = 5;
  receipt.evicted_bytes = 6;
  return receipt;
}

}  // namespace gemmd::testing
