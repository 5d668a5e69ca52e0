// Reads what a session sends, event by event.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/transfer/matmul_session.h"

namespace gemmd::testing {

// The only event of the message that the stream sends next, if there is one.
inline std::optional<Outgoing> Next(MatmulSession* session, MatmulSession::StreamId stream = 0) {
  std::vector<Outgoing> message = session->NextMessage(stream);
  EXPECT_LE(message.size(), 1U);
  if (message.empty()) return std::nullopt;
  return std::move(message.front());
}

}  // namespace gemmd::testing
