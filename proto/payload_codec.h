// Reading messages around their payload: the data of each Chunk stays where it was received.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/operands.pb.h"

namespace gemmd {

// The data of one message's chunks, as views of the bytes it was parsed from.
class PayloadViews {
 public:
  // In the order of the bytes. REQUIRES: the chunk is of the message parsed with this.
  absl::Span<const absl::string_view> of(const v1::Chunk& chunk) const;
  std::uint64_t data_bytes() const;

  // The bytes of the message besides data. Two bytes of it can become an object of a hundred, so
  // that a message with more than this is not parsed: a mebibyte, and a quarter of its data.
  std::uint64_t other_bytes() const { return other_bytes_; }
  std::uint64_t most_other_bytes() const;

 private:
  friend class PayloadParser;
  std::vector<absl::string_view> pieces_;
  std::vector<std::pair<std::size_t, std::size_t>> data_;  // each: first of pieces_, and count
  std::uint64_t other_bytes_ = 0;
};

// Parses a message whose bytes lie in `pieces`, one after another, as its ParseFromString()
// would parse them in one: what that refuses is refused (false), unknown fields are kept, the
// last of several values counts. Only Chunk.data is different: it holds a mark, by which
// `payload` finds the data. The pieces must outlive `payload`. Apart from data, bytes are
// copied once more than the generated parser does. Refused is also what has more than
// most_other_bytes(), which `payload` then tells.
//
// Everything but data is copied into a message of its own, where each data is replaced by its
// number, and the generated parser reads that. So its rules are the rules here.
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces, v1::MatmulRequest* message,
                        PayloadViews* payload);
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces, v1::MatmulResponse* message,
                        PayloadViews* payload);
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        v1::MatmulStreamRequest* message, PayloadViews* payload);
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        v1::MatmulStreamResponse* message, PayloadViews* payload);
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces, v1::UploadRequest* message,
                        PayloadViews* payload);
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces, v1::DownloadResponse* message,
                        PayloadViews* payload);

}  // namespace gemmd
