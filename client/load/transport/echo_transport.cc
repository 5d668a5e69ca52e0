#include "client/load/transport/echo_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/calls/call_count.h"
#include "client/load/transport/echo_stream.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace gemmd::load {
namespace {

class EchoTransport final : public Transport {
 public:
  EchoTransport(const EchoOptions& options, const std::vector<EchoSizes>& sizes) {
    client::ChannelOptions own = options.channel;
    own.own_connection = true;
    int stripes = 1;
    for (const EchoSizes& size : sizes) stripes = std::max(stripes, size.stripes);
    for (int i = 0; i < options.channels; ++i) {
      lanes_.push_back(std::make_unique<Lane>(client::MakeChannel(own)));
      for (int j = 1; j < stripes; ++j) lanes_[i]->channels.push_back(client::MakeChannel(own));
    }
    std::uint64_t largest = 0;
    for (const EchoSizes& size : sizes) largest = std::max(largest, size.request_bytes);
    payload_.assign(largest, 'x');
    for (const EchoSizes& size : sizes) {
      const grpc::Slice slice(payload_.data(), size.request_bytes, grpc::Slice::STATIC_SLICE);
      std::string method = absl::StrCat("/echo/", size.answer_bytes);
      if (size.work.count() > 0) absl::StrAppend(&method, "/", size.work.count());
      kinds_.push_back({std::move(method), grpc::ByteBuffer(&slice, 1), size.answer_bytes});
      for (const auto& lane : lanes_) OpenStreams(size, options.streams, *lane);
    }
  }

  ~EchoTransport() override { Drain(); }

  void Send(const Request& request, Done done) override {
    Lane& lane = *lanes_[request.lane % lanes_.size()];
    const Kind& kind = kinds_[request.entry];
    lane.calls.Begin();
    const auto& streams = lane.streams[request.entry];
    if (!streams.empty()) {
      return streams[request.lane / lanes_.size() % streams.size()]->Send(
          [&lane, done = std::move(done)](absl::StatusCode code) {
            Reply reply;
            reply.code = code;
            done(reply);
            lane.calls.End();
          });
    }
    // The call holds what the callback needs, because gRPC copies the callback itself.
    auto* call = new Call{lane, kind, std::move(done), {}, kind.request, {}};
    lane.stub.UnaryCall(&call->context, kind.method, grpc::StubOptions(), &call->request,
                        &call->answer,
                        [call](const grpc::Status& status) { Finish(call, status); });
  }

  void Drain() override {
    for (const auto& lane : lanes_) lane->calls.WaitForNone();
  }

 private:
  struct Kind {
    std::string method;
    grpc::ByteBuffer request;
    std::uint64_t answer_bytes;
  };
  struct Lane {
    explicit Lane(const std::shared_ptr<grpc::Channel>& channel)
        : channels{channel}, stub(channel) {}
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    grpc::GenericStub stub;
    client::CallCount calls;
    // Indexed by entry; none for those of calls.
    std::vector<std::vector<std::unique_ptr<EchoStreams>>> streams;
  };
  struct Call {
    Lane& lane;
    const Kind& kind;
    const Done done;
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer answer;
  };

  void OpenStreams(const EchoSizes& size, int streams, Lane& lane) const {
    auto& opened = lane.streams.emplace_back();
    if (!size.streamed) return;
    const std::uint64_t larger = std::max(size.request_bytes, size.answer_bytes);
    EchoMessages messages;
    messages.messages =
        std::max<std::uint64_t>(1, (larger + size.chunk_bytes - 1) / size.chunk_bytes);
    messages.answer_bytes = size.answer_bytes / messages.messages;
    messages.method = absl::StrCat("/echo-stream/", messages.answer_bytes);
    const grpc::Slice slice(payload_.data(), size.request_bytes / messages.messages,
                            grpc::Slice::STATIC_SLICE);
    messages.message = grpc::ByteBuffer(&slice, 1);
    const std::vector<std::shared_ptr<grpc::Channel>> channels(
        lane.channels.begin(), lane.channels.begin() + size.stripes);
    for (int i = 0; i < streams; ++i) {
      opened.push_back(std::make_unique<EchoStreams>(channels, messages));
    }
  }

  static void Finish(Call* call, const grpc::Status& status) {
    Lane& lane = call->lane;
    Reply reply;
    reply.code = static_cast<absl::StatusCode>(status.error_code());
    if (status.ok() && call->answer.Length() != call->kind.answer_bytes) {
      reply.code = absl::StatusCode::kInternal;
    }
    call->done(reply);
    delete call;
    // The context holds the channel, which must not end on this thread: its end waits for
    // this.
    lane.calls.End();
  }

  std::string payload_;
  std::vector<Kind> kinds_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace

std::unique_ptr<Transport> MakeEchoTransport(const EchoOptions& options,
                                             const std::vector<EchoSizes>& sizes) {
  return std::make_unique<EchoTransport>(options, sizes);
}

}  // namespace gemmd::load
