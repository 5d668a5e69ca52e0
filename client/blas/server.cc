#include "client/blas/server.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <new>
#include <utility>

#include "client/blas/credentials.h"

namespace gemmd::blas {
namespace {

// While it lives this thread takes no signal, nor do threads that are started meanwhile: the
// program's handlers should not run on threads that it does not know.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// While it lives this thread is not cancelled: its operands would be gone while they are read.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() {
    int ours = 0;
    pthread_setcancelstate(before_, &ours);
  }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = 0;
};

gemmd_array ArrayOf(const RealProduct& product, const void* data, std::int64_t rows,
                    std::int64_t columns, std::int64_t stride) {
  gemmd_array array = GEMMD_ARRAY_INIT;
  array.data = const_cast<void*>(data);  // of an operand, which is only read
  array.dtype = product.is_double ? GEMMD_F64 : GEMMD_F32;
  array.rows = rows;
  array.columns = columns;
  array.row_stride = stride;
  array.column_stride = 1;
  return array;
}

// A product in the words of gemmd.h.
struct Request {
  Request(const RealProduct& product, const Settings& settings, std::int64_t timeout_ms)
      : a_array(ArrayOf(product, product.a, product.transpose_a ? product.k : product.m,
                        product.transpose_a ? product.m : product.k, product.a_stride)),
        b_array(ArrayOf(product, product.b, product.transpose_b ? product.n : product.k,
                        product.transpose_b ? product.k : product.n, product.b_stride)) {
    a.array = &a_array;
    b.array = &b_array;
    options.transpose_a = product.transpose_a;
    options.transpose_b = product.transpose_b;
    options.timeout_ms = timeout_ms;
    if (product.count > 1) {
      options.batch_count = product.count;
      options.a_batch_stride = product.a_batch_stride;
      options.b_batch_stride = product.b_batch_stride;
    }
    if (!product.is_double) options.kernel = settings.kernel;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  gemmd_array a_array;
  gemmd_array b_array;
  gemmd_operand a = GEMMD_OPERAND_INIT;
  gemmd_operand b = GEMMD_OPERAND_INIT;
  gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
};

}  // namespace

struct Answer::Call {
  static void End(void* context, gemmd_result* result, gemmd_error* error) {
    auto& call = *static_cast<Call*>(context);
    const MutexLock lock(call.mutex);
    call.result = result;
    call.error = error;
    call.has_ended = true;
    call.ended.notify_all();  // under the lock: the call is gone as soon as it is let go
  }

  void Wait() {
    const MutexLock lock(mutex);
    while (!has_ended) ended.wait(mutex);
  }

  bool WaitUntil(Server::Clock::time_point end) {
    const MutexLock lock(mutex);
    while (!has_ended) {
      if (ended.wait_until(mutex, end) == std::cv_status::timeout) return has_ended;
    }
    return true;
  }

  explicit Call(const Library& its_library) : library(its_library) {}

  const Library& library;
  gemmd_call* handle = nullptr;
  Mutex mutex;
  CondVar ended;
  bool has_ended ABSL_GUARDED_BY(mutex) = false;
  // Constant after has_ended.
  gemmd_result* result = nullptr;
  gemmd_error* error = nullptr;
};

Answer::Answer(Why why) : why_(why) {}
Answer::Answer(Answer&&) noexcept = default;

Answer::~Answer() {
  if (call_ == nullptr) return;
  const NoCancellation no_cancellation;
  call_->Wait();
  call_->library.result_free(call_->result);
  call_->library.error_free(call_->error);
  call_->library.call_free(call_->handle);
}

Why Server::Ready() {
  if (settings_.server == nullptr) {
    SayOnce(GEMMD_OK, "GEMMD_SERVER is not set");
    return Why::kNoServer;
  }
  const MutexLock lock(mutex_);
  if (pause_.IsOn(Clock::now())) return Why::kPaused;
  if (!was_opened_) {
    was_opened_ = true;
    const NoSignals no_signals;
    if (!Connect()) return Why::kNoClient;
  }
  return client_.load() == nullptr ? Why::kNoClient : Why::kServer;
}

bool Server::Connect() {
  Credentials credentials;
  if (!ReadCredentials(settings_, credentials) || !Open(settings_.library, library_)) return false;
  gemmd_client_options options = GEMMD_CLIENT_OPTIONS_INIT;
  options.target = settings_.server;
  options.token = credentials.token.c_str();
  options.tls = settings_.tls;
  options.root_certificates = credentials.root_certificates.c_str();
  options.client_certificate = credentials.client_certificate.c_str();
  options.client_key = credentials.client_key.c_str();
  options.retry_patience_ms = -1;  // the call is computed here sooner than a second attempt
  gemmd_client* client = nullptr;
  gemmd_error* error = nullptr;
  if (const gemmd_code code = library_.client_new(&options, &client, &error); code != GEMMD_OK) {
    SayOnce(code, library_.error_message(error));
    library_.error_free(error);
    return false;
  }
  client_ = client;
  return true;
}

Answer Server::Multiply(const RealProduct& product, std::chrono::milliseconds limit) {
  const Request request(product, settings_, limit.count());
  Answer answer(Why::kFailed);
  // A program in C knows no exceptions.
  answer.call_.reset(new (std::nothrow) Answer::Call(library_));
  if (answer.call_ == nullptr) return Answer(Why::kNoMemory);
  Answer::Call& call = *answer.call_;
  const NoCancellation no_cancellation;
  gemmd_error* error = nullptr;
  gemmd_code begun = GEMMD_OK;
  {
    const NoSignals no_signals;
    begun = library_.matmul_async(client_, &request.a, &request.b, &request.options,
                                  Answer::Call::End, &call, &call.handle, &error);
  }
  if (begun != GEMMD_OK) {
    answer.why_ = ErrorOf(error);
    Answer::Call::End(&call, nullptr, error);
    return answer;
  }
  if (!call.WaitUntil(Clock::now() + limit)) {
    library_.call_cancel(call.handle);
    SayOnce(GEMMD_DEADLINE_EXCEEDED, "the answer is not here in time");
    answer.why_ = Why::kTooSlow;
    const MutexLock lock(mutex_);
    pause_.Failed(Clock::now());
    return answer;
  }
  if (call.error != nullptr) {
    answer.why_ = ErrorOf(call.error);
    return answer;
  }
  gemmd_array d = GEMMD_ARRAY_INIT;
  const bool is_here = library_.result_array(call.result, &d, nullptr) == GEMMD_OK &&
                       d.rows == product.m && d.columns == product.n &&
                       (d.row_stride == product.n || product.m == 1) && d.data != nullptr;
  if (!is_here) return answer;
  answer.why_ = Why::kServer;
  answer.d_ = d.data;
  Succeeded();
  return answer;
}

Why Server::Estimate(const RealProduct& product, double& total_us) {
  constexpr std::int64_t kTimeoutMs = 1000;
  RealProduct described = product;
  described.a = described.b = this;  // an address for elements that are not read
  const Request request(described, settings_, 0);
  gemmd_estimated estimated = GEMMD_ESTIMATED_INIT;
  gemmd_error* error = nullptr;
  const auto begin = Clock::now();
  gemmd_code code = GEMMD_OK;
  {
    const NoCancellation no_cancellation;
    const NoSignals no_signals;
    code = library_.estimate(client_, &request.a, &request.b, &request.options, kTimeoutMs,
                             &estimated, &error);
  }
  if (code != GEMMD_OK) {
    const Why why = ErrorOf(error);
    library_.error_free(error);
    return why;
  }
  const double trip_us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  const MutexLock lock(mutex_);
  trip_us_ = trip_us_ == 0 ? trip_us : std::min(trip_us_, trip_us);
  total_us = trip_us_ + estimated.total_us;
  return Why::kServer;
}

// Says it where it is the first of its code, and decides when the server is tried again.
Why Server::ErrorOf(gemmd_error* error) {
  // Where memory is short there is a code and no error.
  const gemmd_code code = error == nullptr ? GEMMD_RESOURCE_EXHAUSTED : library_.error_code(error);
  SayOnce(code, error == nullptr ? "no memory" : library_.error_message(error));
  const auto now = Clock::now();
  const MutexLock lock(mutex_);
  switch (code) {
    case GEMMD_INVALID_ARGUMENT:
    case GEMMD_FAILED_PRECONDITION:
    case GEMMD_OUT_OF_RANGE:
    case GEMMD_UNIMPLEMENTED:
      return Why::kRefused;  // others may be taken
    case GEMMD_RESOURCE_EXHAUSTED: {
      const std::int64_t after_ms = error == nullptr ? -1 : library_.error_retry_after_ms(error);
      if (after_ms >= 0) pause_.ComeBack(now, std::chrono::milliseconds(after_ms));
      return Why::kRefused;
    }
    case GEMMD_DEADLINE_EXCEEDED:
      pause_.Failed(now);
      return Why::kTooSlow;
    default:
      pause_.Failed(now);
      return Why::kFailed;
  }
}

void Server::Succeeded() {
  const MutexLock lock(mutex_);
  pause_.Succeeded();
}

void Server::SayOnce(gemmd_code code, const char* message) {
  const unsigned bit = 1U << (static_cast<unsigned>(code) % 32);
  if ((said_.fetch_or(bit) & bit) != 0) return;
  if (code == GEMMD_OK) {
    Say("%s: all is computed here", message);
  } else {
    Say("%s: %s: %s: computed here (said once)", settings_.server, library_.code_name(code),
        message);
  }
}

}  // namespace gemmd::blas
