// The client's side of a MatmulStream session and its peer, without sockets: what happens next
// waits until a test lets it happen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/stream/session_state.h"
#include "gemmd/v1/gemm.pb.h"
#include "tests/client/testing/stream_peer.h"

namespace gemmd::testing {

// The message as the client gets it: through bytes and our own parser.
std::shared_ptr<client::StreamAnswer> AnswerOf(const v1::MatmulStreamResponse& message);

// The message as a server gets it: through our own writer and the generated parser.
v1::MatmulStreamRequest Written(const client::Outgoing& outgoing);

// A request, and how it ended.
struct Asked {
  std::shared_ptr<const client::EncodedMatmul> matmul;
  std::string product;  // what is right
  int ends = 0;
  absl::Status status;
  client::Pushback pushback;
  std::string result;
};

// A product of random int8 matrices.
std::shared_ptr<Asked> Ask(std::uint64_t m, std::uint64_t n, std::uint64_t k,
                           std::mt19937_64& random, bool with_bias = false);

client::StreamRequest RequestOf(const std::shared_ptr<Asked>& asked, std::uint64_t chunk_bytes,
                                absl::Time deadline = absl::InfiniteFuture());

// A session and its peer. With an odd seed the peer is known to read batches, and answers may come
// in them.
class SessionWires {
 public:
  SessionWires(int streams, std::uint64_t seed);

  // Does what the state asked for: writes, copies and wakes wait below; ends are told.
  void Do(client::Actions actions);

  // One thing that can happen, at random; false where nothing can.
  bool Step();
  void Run();

  void FinishWrite(int stream);
  void DeliverBatch(int stream);  // all Finished up to the next other message
  void Flush();
  void Deliver(int stream) { Do(state.Received(stream, AnswerOf(*peer.Send(stream)))); }
  void Copy(std::size_t index);
  void Start(client::StreamRequest request, std::uint64_t* id, bool waits = false);
  std::uint64_t Start(client::StreamRequest request, bool waits = false);
  // Ends every stream; the first with that status.
  void EndAll(const absl::Status& first);

  client::SessionState state;
  StreamPeer peer;
  std::mt19937_64 random;
  std::map<int, client::Outgoing> writing;
  std::vector<client::ChunkCopy> copies;
  std::vector<absl::Time> wakes;
  bool cancelled = false;

 private:
  const int streams_;
  const bool knows_batches_;
  bool waits_ = false;  // what was started, for Flush()
};

}  // namespace gemmd::testing
