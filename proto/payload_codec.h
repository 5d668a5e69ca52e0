// Reading messages around their payload: the data of each Chunk, and the raw contents of the Open
// Inference Protocol, stay where they were received.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/operands.pb.h"
#include "inference/grpc_service.pb.h"

namespace gemmd {

// The data of one message, as views of the bytes it was parsed from.
class PayloadViews {
 public:
  // In the order of the bytes. REQUIRES: the chunk is of the message parsed with this.
  absl::Span<const absl::string_view> of(const v1::Chunk& chunk) const { return of(chunk.data()); }
  // The mark is one of raw_input_contents or raw_output_contents.
  absl::Span<const absl::string_view> of(const std::string& mark) const;
  std::uint64_t data_bytes() const;

  // The bytes of the message besides data. Two bytes of it can become an object of a hundred, so
  // that a message with more than this is not parsed: a mebibyte, and a quarter of its data where
  // the data come in chunks, of which there may be many.
  std::uint64_t other_bytes() const { return other_bytes_; }
  std::uint64_t most_other_bytes() const;
  bool are_chunks() const { return are_chunks_; }

 private:
  friend class PayloadParser;
  std::vector<absl::string_view> pieces_;
  std::vector<std::pair<std::size_t, std::size_t>> data_;  // each: first of pieces_, and count
  std::uint64_t other_bytes_ = 0;
  bool are_chunks_ = true;
};

// Parses a message whose bytes lie in `pieces`, one after another, as its ParseFromString()
// would parse them in one: what that refuses is refused (false), unknown fields are kept, the
// last of several values counts. Only Chunk.data and raw contents are different: they hold a mark,
// by which `payload` finds the data. The pieces must outlive `payload`. Apart from data, bytes are
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
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        inference::ModelInferRequest* message, PayloadViews* payload);
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        inference::ModelInferResponse* message, PayloadViews* payload);
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        inference::ModelStreamInferResponse* message, PayloadViews* payload);

}  // namespace gemmd
