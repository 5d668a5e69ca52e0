#include "server/auth/method_roles.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gemmd/v1/admin.pb.h"
#include "gemmd/v1/gemm.pb.h"
#include "gemmd/v1/operands.pb.h"
#include "gemmd/v1/regions.pb.h"
#include "google/protobuf/descriptor.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.pb.h"

namespace gemmd {
namespace {

// A method that is new must be given its roles.
TEST(MethodRoles, AreThoseOfEveryMethodThatIsServed) {
  std::set<std::string> served;
  // The library has no header of channelz's.
  const google::protobuf::Descriptor* const of_channelz =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
          "grpc.channelz.v1.GetServersRequest");
  ASSERT_NE(of_channelz, nullptr);
  for (const google::protobuf::Descriptor* message :
       {of_channelz, v1::TuneRequest::descriptor(), v1::MatmulRequest::descriptor(),
        v1::UploadRequest::descriptor(), v1::RegisterRegionRequest::descriptor(),
        inference::ModelInferRequest::descriptor(),
        grpc::health::v1::HealthCheckRequest::descriptor(),
        grpc::reflection::v1alpha::ServerReflectionRequest::descriptor()}) {
    const google::protobuf::FileDescriptor* const file = message->file();
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        served.insert(absl::StrCat("/", file->service(i)->full_name(), "/",
                                   file->service(i)->method(j)->name()));
      }
    }
  }
  std::set<std::string> listed;
  for (const MethodRoles& each : AllMethodRoles()) {
    EXPECT_TRUE(listed.insert(each.method).second) << each.method << " stands there twice";
  }
  EXPECT_EQ(listed, served);
}

TEST(MethodRoles, OnlyHealthIsOpen) {
  const std::set<std::string> as_health = {"/inference.GRPCInferenceService/ServerLive",
                                           "/inference.GRPCInferenceService/ServerReady"};
  for (const MethodRoles& each : AllMethodRoles()) {
    EXPECT_EQ(each.any_of.empty(), absl::StartsWith(each.method, "/grpc.health.v1.Health/") ||
                                       as_health.count(each.method) != 0)
        << each.method;
  }
}

TEST(MethodRoles, AreFoundByTheWholeName) {
  ASSERT_NE(RolesOf("/gemmd.v1.Admin/Tune"), nullptr);
  EXPECT_EQ(RolesOf("/gemmd.v1.Admin/Tune")->any_of, Roles{Role::kOperator});
  EXPECT_EQ(RolesOf("/gemmd.v1.Admin/Tun"), nullptr);
  EXPECT_EQ(RolesOf(""), nullptr);
}

TEST(Roles, AreNamed) {
  EXPECT_EQ(ToString(Roles()), "none");
  EXPECT_EQ(ToString({Role::kObserver}), "observer");
  EXPECT_EQ(ToString(Roles::All()), "user or observer or operator");
}

}  // namespace
}  // namespace gemmd
