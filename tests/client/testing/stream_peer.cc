#include "tests/client/testing/stream_peer.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gemmd::testing {
namespace {

std::uint64_t ElementBytes(v1::DataType type) {
  switch (type) {
    case v1::F64:
      return 8;
    case v1::F32:
    case v1::INT32:
      return 4;
    case v1::F16:
    case v1::BF16:
      return 2;
    default:
      return 1;
  }
}

std::uint64_t SizeOf(const v1::Plane& plane) {
  const bool by_rows = plane.order() == v1::ROW_MAJOR;
  const std::uint64_t inner = by_rows ? plane.columns() : plane.rows();
  const std::uint64_t outer = by_rows ? plane.rows() : plane.columns();
  const std::uint64_t stride = plane.leading_dimension() == 0 ? inner : plane.leading_dimension();
  return ((outer - 1) * stride + inner) * ElementBytes(plane.type());
}

v1::Plane ResultOf(const v1::MatmulHeader& header) {
  v1::Plane d;
  d.set_type(header.output_type() == v1::DATA_TYPE_UNSPECIFIED ? header.a().data().type()
                                                               : header.output_type());
  d.set_rows(header.transpose_a() ? header.a().data().columns() : header.a().data().rows());
  d.set_columns(header.transpose_b() ? header.b().data().rows() : header.b().data().columns());
  d.set_order(header.output_order());
  d.set_leading_dimension(header.output_leading_dimension());
  return d;
}

}  // namespace

std::string ScriptedProduct(const std::string& planes, std::uint64_t bytes) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const char byte : planes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  }
  std::string product(bytes, 0);
  for (std::uint64_t i = 0; i < bytes; ++i) {
    product[i] = static_cast<char>((hash + i * 0x9E3779B97F4A7C15ULL) >> 56);
  }
  return product;
}

int StreamPeer::SessionOf(int stream) const {
  const auto found = sessions_.find(stream);
  return found == sessions_.end() ? stream : found->second;
}

void StreamPeer::Receive(int stream, const v1::MatmulStreamRequest& message) {
  const int session = SessionOf(stream);
  switch (message.event_case()) {
    case v1::MatmulStreamRequest::kOpen:
      if (streams_.count(stream) > 0) Fault("Open is not the first");
      sessions_[stream] = stream;
      streams_[stream] = {stream};
      outbox_[stream].emplace_back().mutable_opened()->set_session(absl::StrCat("s", stream));
      break;
    case v1::MatmulStreamRequest::kJoin: {
      int joined = -1;
      const std::string& name = message.join().session();
      if (name.empty() || !absl::SimpleAtoi(name.substr(1), &joined) ||
          streams_.count(joined) == 0 || sessions_.count(stream) > 0) {
        return Fault("Join of no session, or not the first");
      }
      sessions_[stream] = joined;
      streams_[joined].push_back(stream);
      outbox_[stream].emplace_back().mutable_joined();
      break;
    }
    case v1::MatmulStreamRequest::kBatch:
      if (session != stream) Fault("Batch on a joined stream");
      if (message.batch().begins().empty()) Fault("an empty batch");
      if (streams_.count(stream) == 0) streams_[stream] = {stream};
      begins_of_messages_.push_back(message.batch().begins_size());
      for (const auto& begin : message.batch().begins()) {
        if (begin.await_accepted()) Fault("who awaits Accepted has no reason to be in a batch");
        Begin(stream, begin);
      }
      break;
    case v1::MatmulStreamRequest::kBegin:
      if (session != stream) Fault("Begin on a joined stream");
      if (streams_.count(stream) == 0) streams_[stream] = {stream};
      begins_of_messages_.push_back(1);
      Begin(stream, message.begin());
      break;
    case v1::MatmulStreamRequest::kCancel:
      if (session != stream) Fault("Cancel on a joined stream");
      ++cancels_;
      requests_.erase({session, message.cancel().request_id()});
      break;
    case v1::MatmulStreamRequest::kChunk:
      Take({session, message.chunk().request_id()}, stream, message.chunk(), false);
      break;
    default:
      Fault("a message without an event");
  }
}

void StreamPeer::Begin(int stream, const v1::MatmulStreamRequest::Begin& begin) {
  ++begins_;
  last_header_ = begin.header();
  const Key key{stream, begin.request_id()};
  if (requests_.count(key) > 0) return Fault("request_id is in flight");
  if (refuse) {
    if (auto finished = refuse(begin)) {
      finished->set_request_id(begin.request_id());
      *outbox_[stream].emplace_back().mutable_finished() = *std::move(finished);
      return;
    }
  }
  Request& request = requests_[key];
  request.stream = stream;
  request.await_accepted = begin.await_accepted();
  request.held = begins_ <= hold_begins || (hold_opened && sessions_.count(stream) > 0);
  request.header = begin.header();
  const auto add = [&request](v1::OperandName name, const v1::Operand& operand) {
    const auto expect = [&](v1::PlaneName plane, const v1::Plane& what) {
      Plane& added = request.planes[{plane, name}];
      added.missing = SizeOf(what);
      added.bytes.resize(added.missing);
      added.have.resize(added.missing);
    };
    expect(v1::DATA, operand.data());
    if (operand.has_scales()) expect(v1::SCALES, operand.scales());
  };
  add(v1::A, begin.header().a());
  add(v1::B, begin.header().b());
  if (begin.header().has_c()) add(v1::C, begin.header().c());
  if (begin.header().has_bias()) add(v1::BIAS, begin.header().bias());
  if (begin.await_accepted()) {
    outbox_[stream].emplace_back().mutable_accepted()->set_request_id(begin.request_id());
    request.accepted = true;
  }
  for (const v1::Chunk& chunk : begin.payload()) Take(key, stream, chunk, true);
}

void StreamPeer::Take(const Key& key, int stream, const v1::Chunk& chunk, bool in_begin) {
  payload_bytes_ += chunk.data().size();
  if (chunk.request_id() != key.second) Fault("a chunk of another request");
  const auto found = requests_.find(key);
  if (found == requests_.end()) return;  // it has ended
  Request& request = found->second;
  if (!in_begin && !request.accepted) Fault("a chunk before Accepted");
  if (!in_begin && !request.await_accepted && stream != request.stream) {
    Fault("a chunk over another stream, not awaited");
  }
  const auto plane = request.planes.find({chunk.plane(), chunk.operand()});
  if (plane == request.planes.end()) return Fault("a chunk of no plane");
  Plane& into = plane->second;
  if (chunk.offset_bytes() > into.bytes.size() ||
      chunk.data().size() > into.bytes.size() - chunk.offset_bytes()) {
    return Fault("a chunk beyond its plane");
  }
  for (std::size_t i = 0; i < chunk.data().size(); ++i) {
    const std::size_t at = chunk.offset_bytes() + i;
    if (into.have[at]) Fault("a byte came twice");
    into.have[at] = true;
    into.bytes[at] = chunk.data()[i];
    --into.missing;
  }
  FinishIfWhole(key);
}

void StreamPeer::FinishIfWhole(const Key& key) {
  Request& request = requests_[key];
  std::string all;
  for (const auto& [name, plane] : request.planes) {
    if (plane.missing > 0) return;
    all += plane.bytes;
  }
  if (request.held) return;
  v1::MatmulStreamResponse message;
  v1::MatmulStreamResponse::Finished& finished = *message.mutable_finished();
  finished.set_request_id(key.second);
  *finished.mutable_d() = ResultOf(request.header);
  finished.mutable_receipt()->set_request_id(key.second);
  const std::string product = ScriptedProduct(all, SizeOf(finished.d()));
  const std::vector<int>& streams = streams_[key.first];
  const bool is_small = product.size() <= result_chunk_bytes && small_results_in_finished;
  if (is_small) {
    v1::Chunk& chunk = *finished.add_payload();
    chunk.set_request_id(key.second);
    chunk.set_operand(v1::D);
    chunk.set_data(product);
  }
  outbox_[key.first].push_back(std::move(message));
  std::vector<v1::MatmulStreamResponse> chunks;
  for (std::size_t at = 0; !is_small && at < product.size(); at += result_chunk_bytes) {
    v1::Chunk& chunk = *chunks.emplace_back().mutable_chunk();
    chunk.set_request_id(key.second);
    chunk.set_operand(v1::D);
    chunk.set_offset_bytes(at);
    chunk.set_data(product.substr(at, result_chunk_bytes));
  }
  std::shuffle(chunks.begin(), chunks.end(), random_);
  for (v1::MatmulStreamResponse& chunk : chunks) {
    outbox_[streams[random_() % streams.size()]].push_back(std::move(chunk));
  }
  requests_.erase(key);
}

std::optional<v1::MatmulStreamResponse> StreamPeer::Send(int stream) {
  std::deque<v1::MatmulStreamResponse>& queue = outbox_[stream];
  if (!has_to_send(stream)) return std::nullopt;
  v1::MatmulStreamResponse message;
  if (together == 1) {
    message = std::move(queue.front());
    queue.pop_front();
    return message;
  }
  for (std::size_t i = 0; i < together; ++i) {
    if (!queue.front().has_finished()) Fault("the script has Finished alone leave together");
    *message.mutable_batch()->add_finished() = std::move(*queue.front().mutable_finished());
    queue.pop_front();
  }
  return message;
}

bool StreamPeer::has_to_send(int stream) const {
  const auto found = outbox_.find(stream);
  return found != outbox_.end() && found->second.size() >= together;
}

}  // namespace gemmd::testing
