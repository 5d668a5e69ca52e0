// Tests whether NOT_FOUND takes another time where the operand is somebody else's than where it is
// nobody's. Two tenants; one keeps a matrix, and the other asks for its name and for one that
// nobody has, in random order, on one connection. Prints the medians, and Welch's t of the times
// below the ninth decile, as dudect does (Reparaz, Balasch and Verbauwhede, 2017), who take 4.5 for
// a difference.
//
//   bazel run --config=opt //tests/load:not_found_timing [-- CALLS]
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "tests/load/timing.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using Channel = std::shared_ptr<grpc::Channel>;

void Be(const std::string& tenant, grpc::ClientContext* context) {
  context->AddMetadata("gemmd-tenant", tenant);
}

// The handle of what alice keeps.
std::string KeepOne(const Channel& channel) {
  grpc::ClientContext context;
  Be("alice", &context);
  v1::MatmulRequest request = testing::ZeroRequest(64);
  request.mutable_header()->mutable_keep_result();
  v1::MatmulResponse response;
  if (!v1::Gemm::NewStub(channel)->Matmul(&context, request, &response).ok()) std::abort();
  return response.handle();
}

struct Moments {
  double mean = 0;
  double variance_of_mean = 0;
};

Moments MomentsOf(const std::vector<double>& times, double most) {
  double sum = 0;
  double squares = 0;
  double count = 0;
  for (const double time : times) {
    if (time > most) continue;
    sum += time;
    squares += time * time;
    ++count;
  }
  const double mean = sum / count;
  return {mean, (squares / count - mean * mean) / count};
}

void Compare(const char* what, int calls, const std::array<std::string, 2>& names,
             const std::function<grpc::Status(const std::string&)>& call) {
  std::mt19937 random(1);
  std::array<std::vector<double>, 2> times;
  for (int i = 0; i < calls; ++i) {
    const std::size_t which = random() % 2;
    const auto start = std::chrono::steady_clock::now();
    const grpc::Status status = call(names[which]);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (status.error_code() != grpc::StatusCode::NOT_FOUND) std::abort();
    times[which].push_back(took.count());
  }
  std::vector<double> all = times[0];
  all.insert(all.end(), times[1].begin(), times[1].end());
  const auto decile = all.begin() + static_cast<std::ptrdiff_t>(all.size() * 9 / 10);
  std::nth_element(all.begin(), decile, all.end());
  const Moments foreign = MomentsOf(times[0], *decile);
  const Moments absent = MomentsOf(times[1], *decile);
  std::printf(
      "%-8s %8d calls: another's %8.2f us, nobody's %8.2f us, t = %5.2f\n", what, calls,
      Median(times[0]), Median(times[1]),
      (foreign.mean - absent.mean) / std::sqrt(foreign.variance_of_mean + absent.variance_of_mean));
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 40000;
  const gemmd::testing::ServerProcess server;
  const gemmd::Channel channel = server.NewChannel();
  const std::string foreign = gemmd::KeepOne(channel);
  std::string absent = foreign;
  absent.back() = absent.back() == '7' ? '8' : '7';
  const auto operands = gemmd::v1::Operands::NewStub(channel);
  const auto get = [&operands](const std::string& handle) {
    grpc::ClientContext context;
    gemmd::Be("bob", &context);
    gemmd::v1::GetRequest request;
    request.set_handle(handle);
    gemmd::v1::GetResponse response;
    return operands->Get(&context, request, &response);
  };
  const auto release = [&operands](const std::string& handle) {
    grpc::ClientContext context;
    gemmd::Be("bob", &context);
    gemmd::v1::ReleaseRequest request;
    request.set_handle(handle);
    gemmd::v1::ReleaseResponse response;
    return operands->Release(&context, request, &response);
  };
  gemmd::Compare("Get", calls, {foreign, absent}, get);
  gemmd::Compare("Release", calls, {foreign, absent}, release);
  // The baseline: both names are nobody's.
  gemmd::Compare("neither", calls, {absent, absent}, get);
  return 0;
}
