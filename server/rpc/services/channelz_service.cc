#include "server/rpc/services/channelz_service.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/support/method_handler.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/reactors/request_reactor.h"

namespace gemmd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

const google::protobuf::ServiceDescriptor& ServiceOfChannelz() {
  return *google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      ChannelzWire::service_full_name());
}

std::unique_ptr<Message> NewMessage(const Descriptor* type) {
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// A request's fields are all numbers.
std::int64_t NumberOf(const Message& request, const char* field) {
  return request.GetReflection()->GetInt64(request,
                                           request.GetDescriptor()->FindFieldByName(field));
}

// gRPC's answer as its message is written in JSON, which it allocates; null: it knows nothing of
// that number.
using Ask = char* (*)(const Message& request);

struct Question {
  const char* method;
  Ask ask;
};

constexpr Question kQuestions[] = {
    {"GetTopChannels",
     [](const Message& request) {
       return grpc_channelz_get_top_channels(NumberOf(request, "start_channel_id"));
     }},
    {"GetServers",
     [](const Message& request) {
       return grpc_channelz_get_servers(NumberOf(request, "start_server_id"));
     }},
    {"GetServer",
     [](const Message& request) {
       return grpc_channelz_get_server(NumberOf(request, "server_id"));
     }},
    {"GetServerSockets",
     [](const Message& request) {
       // A page has a hundred at most.
       constexpr std::int64_t kMost = 100;
       const std::int64_t wanted = NumberOf(request, "max_results");
       return grpc_channelz_get_server_sockets(
           NumberOf(request, "server_id"), NumberOf(request, "start_socket_id"),
           static_cast<std::intptr_t>(wanted > 0 ? std::min(wanted, kMost) : kMost));
     }},
    {"GetChannel",
     [](const Message& request) {
       return grpc_channelz_get_channel(NumberOf(request, "channel_id"));
     }},
    {"GetSubchannel",
     [](const Message& request) {
       return grpc_channelz_get_subchannel(NumberOf(request, "subchannel_id"));
     }},
    {"GetSocket",
     [](const Message& request) {
       return grpc_channelz_get_socket(NumberOf(request, "socket_id"));
     }},
};

class Answerer final : public RequestReactor {
 public:
  Answerer(const MethodDescriptor* method, Ask ask, CallWatch* watch,
           grpc::CallbackServerContext* context)
      : RequestReactor(watch, context), method_(*method), ask_(ask) {}

 private:
  ~Answerer() override = default;

  void OnMessage(const grpc::ByteBuffer& bytes) override {
    const std::unique_ptr<Message> request = NewMessage(method_.input_type());
    if (absl::Status s = ParseMessage(bytes, request.get()); !s.ok()) return Fail(s);
    char* const json = ask_(*request);
    if (json == nullptr) {
      return Fail(
          absl::NotFoundError(absl::StrCat(method_.name(), ": there is none of that number")));
    }
    const std::unique_ptr<Message> response = NewMessage(method_.output_type());
    const auto parsed = google::protobuf::util::JsonStringToMessage(json, response.get());
    gpr_free(json);
    if (!parsed.ok()) {
      return Fail(
          absl::InternalError(absl::StrCat("gRPC's answer: ", parsed.message().as_string())));
    }
    const grpc::Slice slice(response->SerializeAsString());
    grpc::ByteBuffer answer(&slice, 1);
    Answer(&answer);
  }

  const MethodDescriptor& method_;
  const Ask ask_;
};

}  // namespace

ChannelzWire::Service::Service() {
  // gRPC keeps the names' addresses.
  static const std::vector<std::string>& names = *[] {
    auto* const all = new std::vector<std::string>;
    for (int i = 0; i < ServiceOfChannelz().method_count(); ++i) {
      all->push_back(
          absl::StrCat("/", service_full_name(), "/", ServiceOfChannelz().method(i)->name()));
    }
    return all;
  }();
  using Method = grpc::internal::RpcServiceMethod;
  for (const std::string& each : names) {
    // A handler there must be until Serve() brings the real one.
    AddMethod(new Method(each.c_str(), grpc::internal::RpcMethod::NORMAL_RPC,
                         new grpc::internal::UnknownMethodHandler("")));
  }
}

ChannelzService::ChannelzService(const Door& door) : RawService(door) {
  for (const Question& each : kQuestions) {
    const MethodDescriptor* const method = ServiceOfChannelz().FindMethodByName(each.method);
    Serve(each.method,
          [method, ask = each.ask, watch = door.watch](Context* context, const Login&) {
            return new Answerer(method, ask, watch, context);
          });
  }
}

}  // namespace gemmd
