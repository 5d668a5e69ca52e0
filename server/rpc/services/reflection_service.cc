#include "server/rpc/services/reflection_service.h"

#include <cstddef>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/reactors/request_reactor.h"

namespace gemmd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
using Response = grpc::reflection::v1alpha::ServerReflectionResponse;

// The longest request: it is sent back with its answer, and names are short.
constexpr std::size_t kMostBytes = 4096;

void SetError(absl::StatusCode code, const std::string& message, Response* response) {
  response->mutable_error_response()->set_error_code(static_cast<int>(code));
  response->mutable_error_response()->set_error_message(message);
}

void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>* added,
             FileDescriptorResponse* response) {
  if (!added->insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFile(*file.dependency(i), added, response);
  }
}

void TellFile(const FileDescriptor* file, const std::string& name, Response* response) {
  if (file == nullptr) {
    return SetError(absl::StatusCode::kNotFound, absl::StrCat("there is no ", Quoted(name)),
                    response);
  }
  std::set<const FileDescriptor*> added;
  AddFile(*file, &added, response->mutable_file_descriptor_response());
}

Response ReplyTo(const Request& request, const std::vector<std::string>& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kListServices:
      for (const std::string& service : services) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    case Request::kFileByFilename:
      TellFile(pool.FindFileByName(request.file_by_filename()), request.file_by_filename(),
               &response);
      break;
    case Request::kFileContainingSymbol:
      TellFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
               request.file_containing_symbol(), &response);
      break;
    case Request::kFileContainingExtension: {
      const auto& asked = request.file_containing_extension();
      const Descriptor* const type = pool.FindMessageTypeByName(asked.containing_type());
      const FieldDescriptor* const extension =
          type == nullptr ? nullptr : pool.FindExtensionByNumber(type, asked.extension_number());
      TellFile(
          extension == nullptr ? nullptr : extension->file(),
          absl::StrCat("extension ", asked.extension_number(), " of ", asked.containing_type()),
          &response);
      break;
    }
    case Request::kAllExtensionNumbersOfType: {
      const std::string& name = request.all_extension_numbers_of_type();
      const Descriptor* const type = pool.FindMessageTypeByName(name);
      if (type == nullptr) {
        TellFile(nullptr, name, &response);
        break;
      }
      std::vector<const FieldDescriptor*> extensions;
      pool.FindAllExtensions(type, &extensions);
      auto* const numbers = response.mutable_all_extension_numbers_response();
      numbers->set_base_type_name(name);
      for (const FieldDescriptor* each : extensions) numbers->add_extension_number(each->number());
      break;
    }
    default:
      SetError(absl::StatusCode::kInvalidArgument, "the request asks for nothing", &response);
  }
  return response;
}

}  // namespace

// One stream: the next request is read when its client has the answer to the last.
class ReflectionService::Reflector final : public RequestReactor {
 public:
  Reflector(const std::vector<std::string>* services, CallWatch* watch, Context* context)
      : RequestReactor(watch, context), services_(*services) {}

  void OnWriteDone(bool ok) override {
    if (!ok) return FinishCall(grpc::Status::CANCELLED);
    ReadNext();
  }

 private:
  ~Reflector() override = default;

  void OnMessage(const grpc::ByteBuffer& message) override {
    if (message.Length() > kMostBytes) {
      return Fail(absl::InvalidArgumentError(
          absl::StrCat("the request has ", message.Length(), " bytes; the limit is ", kMostBytes)));
    }
    Request request;
    if (absl::Status s = ParseMessage(message, &request); !s.ok()) return Fail(s);
    const grpc::Slice slice(ReplyTo(request, services_).SerializeAsString());
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    ExpectRead(outgoing_.Length());
    StartWrite(&outgoing_);
  }

  const std::vector<std::string>& services_;
  grpc::ByteBuffer outgoing_;
};

ReflectionService::ReflectionService(std::vector<std::string> services, const Door& door)
    : RawService(door), services_(std::move(services)) {
  Serve("ServerReflectionInfo", [this, watch = door.watch](Context* context, const Login&) {
    return new Reflector(&services_, watch, context);
  });
}

}  // namespace gemmd
