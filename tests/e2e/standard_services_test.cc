// The services every gRPC server of an operator's fleet has: health, reflection, channelz.
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/raw_call.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

TEST(Health, IsServingForTheServerAndItsService) {
  const testing::ServerProcess server;
  const auto channel = server.NewChannel();
  const std::string kCheck = "/grpc.health.v1.Health/Check";
  const std::string kServing("\x08\x01", 2);  // status: SERVING
  EXPECT_EQ(testing::RawUnaryCall(channel, kCheck, "").bytes, kServing);
  const std::string service = "gemmd.v1.Gemm";
  EXPECT_EQ(testing::RawUnaryCall(channel, kCheck,
                                  std::string("\x0a") + static_cast<char>(service.size()) + service)
                .bytes,
            kServing);
  EXPECT_EQ(
      testing::RawUnaryCall(channel, kCheck, std::string("\x0a\x01") + "x").status.error_code(),
      grpc::StatusCode::NOT_FOUND);
}

TEST(Channelz, IsServedWhereItIsAskedFor) {
  for (const char* choice : {"off", "on"}) {
    const testing::ServerProcess server({absl::StrCat("--channelz=", choice)});
    const testing::RawAnswer answer =
        testing::RawUnaryCall(server.NewChannel(), "/grpc.channelz.v1.Channelz/GetServers", "");
    const bool is_on = choice == std::string("on");
    EXPECT_EQ(answer.status.error_code(),
              is_on ? grpc::StatusCode::OK : grpc::StatusCode::UNIMPLEMENTED)
        << answer.status.error_message();
    EXPECT_EQ(answer.bytes.empty(), !is_on);
  }
}

// A request whose only field is a small number.
std::string Numbered(int number) { return std::string("\x08") + static_cast<char>(number); }

TEST(Channelz, TellsOfServersAndTheirConnections) {
  const testing::ServerProcess server({"--channelz=on"});
  const auto channel = server.NewChannel();
  const auto call = [&channel](const std::string& method, const std::string& request) {
    return testing::RawUnaryCall(channel, "/grpc.channelz.v1.Channelz/" + method, request);
  };
  int number = 1;
  while (number < 100 && !call("GetServer", Numbered(number)).status.ok()) ++number;
  ASSERT_LT(number, 100) << "no number is a server's";
  const testing::RawAnswer sockets = call("GetServerSockets", Numbered(number));
  EXPECT_TRUE(sockets.status.ok()) << sockets.status.error_message();
  EXPECT_THAT(sockets.bytes, ::testing::HasSubstr("127.0.0.1"));
  EXPECT_TRUE(call("GetTopChannels", "").status.ok());
  for (const char* method :
       {"GetServer", "GetServerSockets", "GetChannel", "GetSubchannel", "GetSocket"}) {
    EXPECT_EQ(call(method, Numbered(0)).status.error_code(), grpc::StatusCode::NOT_FOUND) << method;
    EXPECT_EQ(call(method, "\xff").status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << method;
  }
}

namespace reflection = grpc::reflection::v1alpha;

class ReflectionTest : public ::testing::Test {
 protected:
  using Request = reflection::ServerReflectionRequest;
  using Response = reflection::ServerReflectionResponse;

  explicit ReflectionTest(std::vector<std::string> flags = {}) : server_(std::move(flags)) {}

  Response Ask(const Request& request) {
    EXPECT_TRUE(call_->Write(request));
    Response response;
    EXPECT_TRUE(call_->Read(&response));
    EXPECT_EQ(response.original_request().SerializeAsString(), request.SerializeAsString());
    return response;
  }
  static std::vector<std::string> FilesOf(const Response& response) {
    std::vector<std::string> files;
    for (const std::string& each : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(each));
      files.push_back(file.name());
    }
    return files;
  }

  const testing::ServerProcess server_;
  const std::unique_ptr<reflection::ServerReflection::Stub> stub_ =
      reflection::ServerReflection::NewStub(server_.NewChannel());
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> call_ =
      stub_->ServerReflectionInfo(&context_);
};

// grpcurl sends these requests to list a server's services, describe one and call it.
TEST_F(ReflectionTest, AnswersOneRequestAfterAnother) {
  Request request;
  request.set_list_services("*");
  const Response list = Ask(request);
  std::vector<std::string> names;
  for (const auto& each : list.list_services_response().service()) names.push_back(each.name());
  EXPECT_THAT(names, UnorderedElementsAre("gemmd.v1.Gemm", "gemmd.v1.Operands", "gemmd.v1.Regions",
                                          "gemmd.v1.Admin", "inference.GRPCInferenceService",
                                          "grpc.health.v1.Health",
                                          "grpc.reflection.v1alpha.ServerReflection"));
  for (const std::string& name : names) {
    request.set_file_containing_symbol(name);
    EXPECT_THAT(FilesOf(Ask(request)), Not(IsEmpty())) << name;
  }
  request.set_file_containing_symbol("gemmd.v1.Gemm.Matmul");
  const std::vector<std::string> files = FilesOf(Ask(request));
  EXPECT_EQ(files.front(), "gemmd/v1/gemm.proto");
  EXPECT_THAT(files, Contains("gemmd/v1/matrix.proto")) << "which it imports";
  EXPECT_EQ(std::set<std::string>(files.begin(), files.end()).size(), files.size());
  request.set_file_by_filename("gemmd/v1/matrix.proto");
  EXPECT_EQ(FilesOf(Ask(request)).front(), "gemmd/v1/matrix.proto");

  request.set_all_extension_numbers_of_type("google.protobuf.FieldOptions");
  const auto numbers = Ask(request).all_extension_numbers_response().extension_number();
  EXPECT_THAT(numbers, Contains(50001)) << "of the server's own options";
  request.mutable_file_containing_extension()->set_containing_type("google.protobuf.FieldOptions");
  request.mutable_file_containing_extension()->set_extension_number(50001);
  EXPECT_EQ(FilesOf(Ask(request)).front(), "server/options/config.proto");

  EXPECT_TRUE(call_->WritesDone());
  const grpc::Status end = call_->Finish();
  EXPECT_TRUE(end.ok()) << end.error_message();
}

TEST_F(ReflectionTest, SaysWhatThereIsNot) {
  std::vector<Request> requests(4);
  requests[0].set_file_by_filename("no.proto");
  requests[1].set_file_containing_symbol("no.such.Symbol");
  requests[2].set_all_extension_numbers_of_type("no.such.Type");
  requests[3].mutable_file_containing_extension()->set_containing_type("gemmd.v1.Limits");
  requests[3].mutable_file_containing_extension()->set_extension_number(7);
  for (const Request& request : requests) {
    const reflection::ErrorResponse error = Ask(request).error_response();
    EXPECT_EQ(error.error_code(), grpc::StatusCode::NOT_FOUND) << request.ShortDebugString();
    EXPECT_EQ(error.error_message().substr(0, 12), "there is no ");
  }
  EXPECT_EQ(Ask(Request()).error_response().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ReflectionTest, ALongNameEndsTheCall) {
  Request request;
  request.set_file_by_filename(std::string(5000, 'x'));
  EXPECT_TRUE(call_->Write(request));
  Response response;
  EXPECT_FALSE(call_->Read(&response));
  const grpc::Status end = call_->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(end.error_message(), "the request has 5003 bytes; the limit is 4096");
}

}  // namespace
}  // namespace gemmd
