// Asynchronous products of the C interface: their callbacks, cancellation, servers that are gone,
// and clients that are freed meanwhile.
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "tests/client/c/c_fixture.h"

namespace gemmd {
namespace {

// The end of one product, as its callback tells it.
struct End {
  std::promise<std::string> told;

  static void Run(void* context, gemmd_result* result, gemmd_error* error) {
    EXPECT_NE(result == nullptr, error == nullptr);
    const gemmd_code code = gemmd_error_code(error);
    gemmd_result_free(result);
    static_cast<End*>(context)->told.set_value(Told(code, error));
  }
  std::string Wait() { return told.get_future().get(); }
};

class LifeTest : public CTest {
 protected:
  // Begins a product.
  gemmd_code Start(gemmd_client* client, End* end, gemmd_call** call = nullptr,
                   std::int64_t timeout_ms = 0) {
    gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    return gemmd_matmul_async(client, &a_operand_, &b_operand_, &options, &End::Run, end, call,
                              nullptr);
  }
  // Waits until it stands still, because a signal takes effect later than it is sent.
  void Stop() {
    server_.Signal(SIGSTOP);
    siginfo_t stopped;
    ASSERT_EQ(0, waitid(P_PID, static_cast<id_t>(server_.pid()), &stopped, WSTOPPED));
  }
  void GoOn() { server_.Signal(SIGCONT); }
  // So that a connection is there.
  void Connect() {
    End end;
    ASSERT_EQ(GEMMD_OK, Start(client_, &end));
    ASSERT_EQ("OK", end.Wait());
  }

  gemmd_operand a_operand_ = OperandOf(a_);
  gemmd_operand b_operand_ = OperandOf(b_);
};

TEST_F(LifeTest, SeveralServersAreOneClientsAndErrorsNameTheirs) {
  gemmd_client* const client = NewClient("127.0.0.1:1," + server_.address());
  gemmd_server_info* info = nullptr;
  gemmd_error* error = nullptr;
  EXPECT_EQ("OK", Told(gemmd_server_info_get(client, 60000, &info, &error), error));
  EXPECT_STRNE(gemmd_server_info_version(info), "");
  gemmd_server_info_free(info);
  EXPECT_EQ(gemmd_client_free(client, nullptr), GEMMD_OK);
  for (const auto& [list, words] :
       {std::pair("127.0.0.1:1,127.0.0.1:2", "UNAVAILABLE: 127.0.0.1:1: "),
        std::pair("a:1,,b:1", "INVALID_ARGUMENT: entry 2 of servers is ")}) {
    gemmd_client* const lost = NewClient(list, -1);
    error = nullptr;
    const std::string told = Told(gemmd_server_info_get(lost, 60000, &info, &error), error);
    EXPECT_EQ(told.rfind(words, 0), 0u) << told;
    EXPECT_EQ(gemmd_client_free(lost, nullptr), GEMMD_OK);
  }
}

TEST_F(LifeTest, ACallbackRunsOnce) {
  std::vector<std::unique_ptr<End>> ends;
  for (int i = 0; i < 100; ++i) {
    ends.push_back(std::make_unique<End>());
    ASSERT_EQ(GEMMD_OK, Start(client_, ends.back().get()));
  }
  for (const std::unique_ptr<End>& each : ends) EXPECT_EQ("OK", each->Wait());
}

TEST_F(LifeTest, ACancelledProductEndsSo) {
  Connect();
  Stop();
  End cancelled;
  End other;
  gemmd_call* call = nullptr;
  ASSERT_EQ(GEMMD_OK, Start(client_, &cancelled, &call));
  ASSERT_EQ(GEMMD_OK, Start(client_, &other));
  gemmd_call_cancel(call);
  EXPECT_EQ("CANCELLED: cancelled by its caller [, -1]", cancelled.Wait());
  gemmd_call_cancel(call);
  gemmd_call_free(call);
  GoOn();
  EXPECT_EQ("OK", other.Wait());
}

TEST_F(LifeTest, ADeadlineEndsAProduct) {
  Connect();
  Stop();
  End end;
  ASSERT_EQ(GEMMD_OK, Start(client_, &end, nullptr, 50));
  EXPECT_EQ("DEADLINE_EXCEEDED", end.Wait().substr(0, 17));
  GoOn();
}

TEST_F(LifeTest, FreeingAClientCancelsWhatIsUnderWay) {
  gemmd_client* const client = NewClient(server_.address());
  Stop();
  std::vector<std::unique_ptr<End>> ends;
  gemmd_call* call = nullptr;
  for (int i = 0; i < 20; ++i) {
    ends.push_back(std::make_unique<End>());
    ASSERT_EQ(GEMMD_OK, Start(client, ends.back().get(), i == 0 ? &call : nullptr));
  }
  EXPECT_EQ(GEMMD_OK, gemmd_client_free(client, nullptr));
  for (const std::unique_ptr<End>& each : ends) {
    EXPECT_EQ("CANCELLED: cancelled by its caller [, -1]", each->Wait());
  }
  GoOn();
  // It outlives the client.
  gemmd_call_cancel(call);
  gemmd_call_free(call);
}

struct Context {
  gemmd_client* client = nullptr;
  gemmd_operand operand = GEMMD_OPERAND_INIT;
  std::promise<void> done;
};

TEST_F(LifeTest, FunctionsThatWaitRefuseToRunInACallback) {
  Context context;
  context.client = client_;
  context.operand = a_operand_;
  const auto callback = [](void* given, gemmd_result* result, gemmd_error* error) {
    gemmd_result_free(result);
    gemmd_error_free(error);
    auto* const ours = static_cast<Context*>(given);
    gemmd_error* e = nullptr;
    gemmd_server_info* info = nullptr;
    EXPECT_EQ("FAILED_PRECONDITION: a callback cannot call a function that waits [, -1]",
              Told(gemmd_server_info_get(ours->client, 0, &info, &e), e));
    gemmd_result* product = nullptr;
    EXPECT_EQ(
        "FAILED_PRECONDITION: a callback cannot call a function that waits [, -1]",
        Told(gemmd_matmul(ours->client, &ours->operand, &ours->operand, nullptr, &product, &e), e));
    EXPECT_EQ("FAILED_PRECONDITION: a callback cannot free a client, which waits for it [, -1]",
              Told(gemmd_client_free(ours->client, &e), e));
    ours->done.set_value();
  };
  ASSERT_EQ(GEMMD_OK, gemmd_matmul_async(client_, &a_operand_, &b_operand_, nullptr, callback,
                                         &context, nullptr, nullptr));
  context.done.get_future().wait();
}

TEST_F(LifeTest, AServerThatIsGone) {
  gemmd_client* const client = NewClient("127.0.0.1:1", -1);
  gemmd_result* result = nullptr;
  gemmd_error* error = nullptr;
  EXPECT_EQ(GEMMD_UNAVAILABLE,
            gemmd_matmul(client, &a_operand_, &b_operand_, nullptr, &result, &error));
  EXPECT_EQ(nullptr, result);
  EXPECT_EQ(-1, gemmd_error_retry_after_ms(error));
  gemmd_error_free(error);
  gemmd_matrix* matrix = nullptr;
  EXPECT_EQ(GEMMD_UNAVAILABLE, gemmd_put(client, &a_, 0, 0, &matrix, nullptr));
  End end;
  EXPECT_EQ(GEMMD_OK, Start(client, &end));
  EXPECT_EQ("UNAVAILABLE", end.Wait().substr(0, 11));
  EXPECT_EQ(GEMMD_OK, gemmd_client_free(client, nullptr));
}

TEST_F(LifeTest, AServerThatDies) {
  gemmd_client* const client = NewClient(server_.address(), -1);
  Stop();
  End end;
  ASSERT_EQ(GEMMD_OK, Start(client, &end));
  server_.Signal(SIGKILL);
  EXPECT_EQ("UNAVAILABLE", end.Wait().substr(0, 11));
  EXPECT_EQ(GEMMD_OK, gemmd_client_free(client, nullptr));
}

}  // namespace
}  // namespace gemmd
