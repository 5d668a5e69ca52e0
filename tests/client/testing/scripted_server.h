// A gemmd server over a real socket that answers as a test's script says.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace gemmd::testing {

// Handles one Matmul.
using Step = std::function<grpc::Status(grpc::ServerContext&, const v1::MatmulRequest&,
                                        v1::MatmulResponse&)>;

// Fails, with this pushback in the trailing metadata unless it is empty.
Step Fail(grpc::StatusCode code, const std::string& message, const std::string& pushback = "");

// Answers rows x columns of int8 in row-major order as one chunk, with a small receipt.
Step Answer(std::uint64_t rows, std::uint64_t columns, const std::string& bytes);

// Answers as Answer does, but 2 x 2, and spoilt by `change` before it is sent.
Step AnswerChanged(std::function<void(v1::MatmulResponse&)> change);

// Thread-safe. Keeps gRPC initialised for the rest of the process: starting it anew for
// every server can stall for seconds.
class ScriptedServer final : private v1::Gemm::Service, private v1::Admin::Service {
 public:
  struct Options {
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    int max_message_bytes = -1;
  };
  ScriptedServer() : ScriptedServer(Options()) {}
  explicit ScriptedServer(const Options& options);
  ~ScriptedServer() override;

  // Appends a step; a Matmul beyond the script is INTERNAL.
  void Then(Step step);

  // "127.0.0.1:PORT".
  std::string target() const;

  // Every Matmul request so far.
  std::vector<v1::MatmulRequest> requests() const;

  // The answer of Admin: the status if it is an error, else the messages.
  grpc::Status admin_status;
  v1::ServerInfoResponse server_info;
  v1::ListKernelsResponse kernels;
  v1::StatisticsResponse statistics;
  v1::TuneResponse tuned;
  v1::ListKernelsRequest last_list_kernels;
  v1::StatisticsRequest last_statistics;
  v1::TuneRequest last_tune;
  // Gemm's, likewise.
  v1::EstimateResponse estimate;
  v1::EstimateRequest last_estimate;

 private:
  grpc::Status Matmul(grpc::ServerContext* context, const v1::MatmulRequest* request,
                      v1::MatmulResponse* response) override;
  grpc::Status Estimate(grpc::ServerContext* context, const v1::EstimateRequest* request,
                        v1::EstimateResponse* response) override;
  grpc::Status ServerInfo(grpc::ServerContext* context, const v1::ServerInfoRequest* request,
                          v1::ServerInfoResponse* response) override;
  grpc::Status ListKernels(grpc::ServerContext* context, const v1::ListKernelsRequest* request,
                           v1::ListKernelsResponse* response) override;
  grpc::Status Statistics(grpc::ServerContext* context, const v1::StatisticsRequest* request,
                          v1::StatisticsResponse* response) override;
  grpc::Status Tune(grpc::ServerContext* context, const v1::TuneRequest* request,
                    v1::TuneResponse* response) override;

  int port_ = 0;
  mutable std::mutex mutex_;
  std::deque<Step> script_;                  // guarded by mutex_
  std::vector<v1::MatmulRequest> requests_;  // guarded by mutex_
  std::unique_ptr<grpc::Server> server_;     // last: handlers use what stands above
};

}  // namespace gemmd::testing
