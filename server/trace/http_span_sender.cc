#include "server/trace/http_span_sender.h"

#include <atomic>
#include <optional>

#include "absl/strings/string_view.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/post.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/http.hpp"
#include "server/trace/name_lookup.h"
#include "server/trace/otlp_json.h"

namespace gemmd {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;

constexpr std::uint32_t kHeaderBytes = 8192;
constexpr std::uint64_t kBodyBytes = 65536;

SendOutcome OutcomeOf(const http::response<http::string_body>& response) {
  using Kind = SendOutcome::Kind;
  const http::status_class kind = http::to_status_class(response.result_int());
  if (kind == http::status_class::successful) return {Kind::kTaken, RejectedSpans(response.body())};
  switch (response.result()) {
    case http::status::too_many_requests:
    case http::status::bad_gateway:
    case http::status::service_unavailable:
    case http::status::gateway_timeout:
      return {Kind::kTryAgain, 0};
    default:
      return {Kind::kRefused, 0};
  }
}

// One batch: its steps follow one another on the thread that runs the context.
class Post {
 public:
  Post(asio::io_context* io, NameLookup* lookup, const OtlpEndpoint& endpoint,
       const std::string& body, std::chrono::milliseconds timeout)
      : lookup_(lookup), stream_(*io) {
    request_.method(http::verb::post);
    request_.target(endpoint.target);
    request_.set(http::field::host, endpoint.authority());
    request_.set(http::field::user_agent, "gemmd");
    request_.set(http::field::content_type, "application/json");
    request_.keep_alive(false);
    request_.body() = body;
    request_.prepare_payload();
    parser_.header_limit(kHeaderBytes);
    parser_.body_limit(kBodyBytes);
    timer_.emplace(*io, timeout);
    timer_->async_wait([this](ErrorCode error) {
      if (!error) Cancel();
    });
    lookup_->Find(io, [this](const NameLookup::Addresses& found) {
      found.empty() ? Finish() : Connect(found);
    });
  }

  void Cancel() {
    is_cancelled_ = true;
    stream_.cancel();
    if (lookup_->Forget()) Finish();
  }

  SendOutcome outcome() const { return outcome_; }

 private:
  void Connect(const NameLookup::Addresses& found) {
    if (is_cancelled_) return Finish();
    stream_.async_connect(found, [this](ErrorCode error, const Tcp::endpoint& /*endpoint*/) {
      error || is_cancelled_ ? Finish() : Write();
    });
  }
  void Write() {
    http::async_write(stream_, request_, [this](ErrorCode error, std::size_t /*bytes*/) {
      // A collector that refuses a request may do so before it has read it all.
      static_cast<void>(error);
      is_cancelled_ ? Finish() : Read();
    });
  }
  void Read() {
    http::async_read(stream_, buffer_, parser_, [this](ErrorCode error, std::size_t /*bytes*/) {
      if (!error) outcome_ = OutcomeOf(parser_.get());
      Finish();
    });
  }
  void Finish() {
    timer_->cancel();
    stream_.close();
  }

  NameLookup* const lookup_;
  beast::tcp_stream stream_;
  std::optional<asio::steady_timer> timer_;
  http::request<http::string_body> request_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  bool is_cancelled_ = false;
  SendOutcome outcome_;
};

}  // namespace

class HttpSpanSender::Impl {
 public:
  explicit Impl(OtlpEndpoint endpoint)
      : endpoint_(std::move(endpoint)),
        lookup_(NameLookup::System(endpoint_.host, endpoint_.port)) {}

  SendOutcome Send(const std::string& body, std::chrono::milliseconds timeout) {
    if (is_interrupted_) return {};
    Post post(&io_, &lookup_, endpoint_, body, timeout);
    current_ = &post;
    io_.restart();
    io_.run();
    current_ = nullptr;
    return post.outcome();
  }
  void Interrupt() {
    is_interrupted_ = true;
    asio::post(io_, [this] {
      if (current_ != nullptr) current_->Cancel();
    });
  }

 private:
  const OtlpEndpoint endpoint_;
  std::atomic<bool> is_interrupted_{false};
  asio::io_context io_{1};
  NameLookup lookup_;        // after io_, to which it posts
  Post* current_ = nullptr;  // used by what io_ runs, and by the thread that runs it
};

HttpSpanSender::HttpSpanSender(const OtlpEndpoint& endpoint)
    : impl_(std::make_unique<Impl>(endpoint)) {}
HttpSpanSender::~HttpSpanSender() = default;

SendOutcome HttpSpanSender::Send(const std::string& body, std::chrono::milliseconds timeout) {
  return impl_->Send(body, timeout);
}

void HttpSpanSender::Interrupt() { impl_->Interrupt(); }

}  // namespace gemmd
