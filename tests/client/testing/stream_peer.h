// The other side of MatmulStream as a test's script: written with the generated messages alone,
// so that what it reads is what any client's protobuf would have written. No sockets.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gemmd/v1/gemm.pb.h"

namespace gemmd::testing {

// Returns the product that the peer computes: bytes that depend on every byte of every plane.
// `planes` are those of A, B, C, bias and then of scales, one after another.
std::string ScriptedProduct(const std::string& planes, std::uint64_t bytes);

// Streams are numbers that the caller chooses. Not thread-safe.
class StreamPeer {
 public:
  explicit StreamPeer(std::uint64_t seed) : random_(seed) {}

  // The script; all may be left as they are.
  //
  // The refusal of a request when it begins; nothing lets it in.
  std::function<std::optional<v1::MatmulStreamResponse::Finished>(
      const v1::MatmulStreamRequest::Begin&)>
      refuse;
  // Small results come in Finished itself, or else in chunks.
  bool small_results_in_finished = true;
  std::uint64_t result_chunk_bytes = 1000;
  int hold_begins = 0;       // the first so many requests never finish
  std::size_t together = 1;  // so many Finished leave in one message, once they are there
  bool hold_opened = false;  // nor those of sessions that were opened for several streams
  static constexpr int kHoldAll = 1 << 30;

  void Receive(int stream, const v1::MatmulStreamRequest& message);
  // The next message for the client on this stream.
  std::optional<v1::MatmulStreamResponse> Send(int stream);
  bool has_to_send(int stream) const;

  // Breaches of the contract, which a conforming client never commits.
  const std::vector<std::string>& faults() const { return faults_; }
  std::uint64_t payload_bytes() const { return payload_bytes_; }
  int begins() const { return begins_; }
  const std::vector<int>& begins_of_messages() const { return begins_of_messages_; }
  int cancels() const { return cancels_; }
  std::size_t in_flight() const { return requests_.size(); }
  const v1::MatmulHeader& last_header() const { return last_header_; }

 private:
  using Key = std::pair<int, std::uint64_t>;  // the session's first stream, and the request
  struct Plane {
    std::string bytes;
    std::vector<bool> have;
    std::uint64_t missing = 0;
  };
  struct Request {
    int stream = 0;
    bool await_accepted = false;
    bool accepted = false;
    bool held = false;
    v1::MatmulHeader header;
    std::map<std::pair<int, int>, Plane> planes;  // by plane name, then operand
  };

  void Begin(int stream, const v1::MatmulStreamRequest::Begin& begin);
  void Take(const Key& key, int stream, const v1::Chunk& chunk, bool in_begin);
  void FinishIfWhole(const Key& key);
  int SessionOf(int stream) const;
  void Fault(std::string what) { faults_.push_back(std::move(what)); }

  std::mt19937_64 random_;
  std::map<int, int> sessions_;              // a stream's session, by its first stream
  std::map<int, std::vector<int>> streams_;  // of a session
  std::map<Key, Request> requests_;
  std::map<int, std::deque<v1::MatmulStreamResponse>> outbox_;
  std::vector<std::string> faults_;
  std::uint64_t payload_bytes_ = 0;
  int begins_ = 0;
  std::vector<int> begins_of_messages_;
  int cancels_ = 0;
  v1::MatmulHeader last_header_;
};

}  // namespace gemmd::testing
