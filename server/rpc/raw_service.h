// How services take their calls: as raw bytes, from their headers on.
#pragma once

#include <functional>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/grpcpp.h"

namespace gemmd {

// Wire is a service's generated class. Every method is registered as a stream of raw messages in
// both directions, because of such a stream alone gRPC makes the reactor when the headers come, and
// gives it bytes that may be malformed. On the wire nothing is different.
template <typename Wire>
class RawService : public Wire::Service {
 public:
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Reactor = grpc::ServerBidiReactor<Bytes, Bytes>;

 protected:
  // REQUIRES: the service has that method.
  void Serve(const char* method, std::function<Reactor*(Context*)> handler) {
    const int index = google::protobuf::DescriptorPool::generated_pool()
                          ->FindServiceByName(Wire::service_full_name())
                          ->FindMethodByName(method)
                          ->index();
    this->MarkMethodStreamed(index, nullptr);
    this->MarkMethodRawCallback(
        index, new grpc::internal::CallbackBidiHandler<Bytes, Bytes>(std::move(handler)));
  }
};

}  // namespace gemmd
