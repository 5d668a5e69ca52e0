// The base of services that take their calls as raw bytes, from their headers on.
#pragma once

#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/calls/authorizer.h"
#include "server/rpc/calls/refused_call.h"
#include "server/rpc/codec/status.h"

namespace gemmd {

// The checks that every call of every service passes.
struct Door {
  CallWatch* watch = nullptr;
  const Authorizer* authorizer = nullptr;
};

// Wire is a service's generated class. Every method is registered as a stream of raw messages in
// both directions, because only for such a stream gRPC makes the reactor when the headers come, and
// gives it bytes that may be malformed. The wire shows no difference. A call that the authorizer
// refuses has no reactor of the service's.
template <typename Wire>
class RawService : public Wire::Service {
 public:
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Reactor = grpc::ServerBidiReactor<Bytes, Bytes>;

 protected:
  // REQUIRES: the door's pointers outlive the service.
  explicit RawService(const Door& door) : door_(door) {}

  // REQUIRES: the service has that method, and the table of roles too.
  void Serve(const char* method, std::function<Reactor*(Context*, const Login&)> handler) {
    const int index = google::protobuf::DescriptorPool::generated_pool()
                          ->FindServiceByName(Wire::service_full_name())
                          ->FindMethodByName(method)
                          ->index();
    const MethodRoles* const roles =
        RolesOf(absl::StrCat("/", Wire::service_full_name(), "/", method));
    if (roles == nullptr) std::abort();  // at the first start of whoever added it
    this->MarkMethodStreamed(index, nullptr);
    this->MarkMethodRawCallback(
        index, new grpc::internal::CallbackBidiHandler<Bytes, Bytes>(
                   [door = door_, roles, handler = std::move(handler)](Context* context) {
                     const absl::StatusOr<Login> login = door.authorizer->Admit(*context, *roles);
                     if (login.ok()) return handler(context, *login);
                     const grpc::Status status = ToGrpcStatus(login.status(), context);
                     return static_cast<Reactor*>(new RefusedCall(door.watch, context, status));
                   }));
  }

 private:
  const Door door_;
};

}  // namespace gemmd
