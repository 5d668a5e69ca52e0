#include "tests/client/testing/scripted_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"

namespace gemmd::testing {
namespace {

void AddStage(v1::StageName name, double start_us, double end_us, v1::Receipt& receipt) {
  v1::Stage& stage = *receipt.add_stages();
  stage.set_name(name);
  stage.set_start_us(start_us);
  stage.set_end_us(end_us);
  stage.set_exposed_us(end_us - start_us);
}

}  // namespace

Step Fail(grpc::StatusCode code, const std::string& message, const std::string& pushback) {
  return [=](grpc::ServerContext& context, const v1::MatmulRequest&, v1::MatmulResponse&) {
    if (!pushback.empty()) context.AddTrailingMetadata("grpc-retry-pushback-ms", pushback);
    return grpc::Status(code, message);
  };
}

Step Answer(std::uint64_t rows, std::uint64_t columns, const std::string& bytes) {
  return [=](grpc::ServerContext&, const v1::MatmulRequest&, v1::MatmulResponse& response) {
    response.mutable_d()->set_type(v1::INT8);
    response.mutable_d()->set_rows(rows);
    response.mutable_d()->set_columns(columns);
    v1::Chunk& chunk = *response.add_payload();
    chunk.set_operand(v1::D);
    chunk.set_data(bytes);
    v1::Receipt& receipt = *response.mutable_receipt();
    receipt.set_request_id(7);
    AddStage(v1::DECODE, 0, 1, receipt);
    AddStage(v1::COMPUTE, 1, 4, receipt);
    receipt.set_total_us(5);
    receipt.set_unattributed_us(1);
    receipt.set_device("cpu");
    receipt.set_kernel("cpu/test");
    receipt.set_plan("rows=64");
    receipt.set_numerics_id("test/1");
    receipt.set_batch_requests(1);
    receipt.set_batch_rows(rows);
    receipt.set_flops(2e3);
    receipt.set_achieved_gflops(1.5);
    return grpc::Status::OK;
  };
}

Step AnswerChanged(std::function<void(v1::MatmulResponse&)> change) {
  return
      [change = std::move(change)](grpc::ServerContext& context, const v1::MatmulRequest& request,
                                   v1::MatmulResponse& response) {
        grpc::Status status = Answer(2, 2, "abcd")(context, request, response);
        change(response);
        return status;
      };
}

ScriptedServer::ScriptedServer(const Options& options) {
  static const bool initialised = [] {
    grpc_init();
    return true;
  }();
  (void)initialised;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", options.credentials, &port_);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.RegisterService(static_cast<v1::Gemm::Service*>(this));
  builder.RegisterService(static_cast<v1::Admin::Service*>(this));
  server_ = builder.BuildAndStart();
}

ScriptedServer::~ScriptedServer() {
  // A deadline in the past: calls that a test abandoned are cancelled and not awaited.
  server_->Shutdown(std::chrono::system_clock::now());
}

void ScriptedServer::Then(Step step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  script_.push_back(std::move(step));
}

std::string ScriptedServer::target() const { return absl::StrCat("127.0.0.1:", port_); }

std::vector<v1::MatmulRequest> ScriptedServer::requests() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return requests_;
}

grpc::Status ScriptedServer::Matmul(grpc::ServerContext* context, const v1::MatmulRequest* request,
                                    v1::MatmulResponse* response) {
  Step step = Fail(grpc::StatusCode::INTERNAL, "the test's script has no more steps");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_.push_back(*request);
    if (!script_.empty()) {
      step = std::move(script_.front());
      script_.pop_front();
    }
  }
  return step(*context, *request, *response);
}

grpc::Status ScriptedServer::ServerInfo(grpc::ServerContext*, const v1::ServerInfoRequest*,
                                        v1::ServerInfoResponse* response) {
  *response = server_info;
  return admin_status;
}

grpc::Status ScriptedServer::ListKernels(grpc::ServerContext*,
                                         const v1::ListKernelsRequest* request,
                                         v1::ListKernelsResponse* response) {
  last_list_kernels = *request;
  *response = kernels;
  return admin_status;
}

grpc::Status ScriptedServer::Statistics(grpc::ServerContext*, const v1::StatisticsRequest* request,
                                        v1::StatisticsResponse* response) {
  last_statistics = *request;
  *response = statistics;
  return admin_status;
}

grpc::Status ScriptedServer::Estimate(grpc::ServerContext*, const v1::EstimateRequest* request,
                                      v1::EstimateResponse* response) {
  last_estimate = *request;
  *response = estimate;
  return admin_status;
}

grpc::Status ScriptedServer::Tune(grpc::ServerContext*, const v1::TuneRequest* request,
                                  v1::TuneResponse* response) {
  last_tune = *request;
  *response = tuned;
  return admin_status;
}

}  // namespace gemmd::testing
