// The services every gRPC server of an operator's fleet has: health, reflection, channelz.
// Their messages are given as bytes, because no generated code for them is installed.
#include <string>

#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/testing/raw_call.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

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

TEST(Channelz, ListsTheServer) {
  const testing::ServerProcess server;
  const testing::RawAnswer answer =
      testing::RawUnaryCall(server.NewChannel(), "/grpc.channelz.v1.Channelz/GetServers", "");
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_FALSE(answer.bytes.empty());
}

TEST(Reflection, NamesOurServices) {
  const testing::ServerProcess server;
  grpc::GenericStub stub(server.NewChannel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  const grpc::Slice list_services(std::string("\x3a\x00", 2));
  call->Write(grpc::ByteBuffer(&list_services, 1), nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Slice whole;
  ASSERT_TRUE(answer.DumpToSingleSlice(&whole).ok());
  const std::string text(reinterpret_cast<const char*>(whole.begin()), whole.size());
  for (const char* name : {"gemmd.v1.Gemm", "gemmd.v1.Operands", "gemmd.v1.Admin"}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
}

}  // namespace
}  // namespace gemmd
