#include "server/observe_http/http_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "boost/asio/generic/stream_protocol.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/beast/core/basic_stream.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http.hpp"
#include "boost/beast/ssl/ssl_stream.hpp"
#include "server/net/acceptor.h"
#include "server/net/listening_sockets.h"
#include "server/observe_http/http_target.h"
#include "server/observe_http/tls_context.h"

namespace gemmd {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

using ErrorCode = boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;
using Plain = beast::basic_stream<asio::generic::stream_protocol>;
using Tls = beast::ssl_stream<Plain>;

// The state that all connections of a server share. Counters are read on other threads.
struct Shared {
  HttpServer::Handler handler;
  std::chrono::milliseconds timeout{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> rejected{0};
  std::atomic<std::uint64_t> timeouts{0};
};

// The values of all headers of that name, in their order.
std::vector<std::string> ValuesOf(const http::request<http::empty_body>& message,
                                  http::field name) {
  std::vector<std::string> values;
  const auto [begin, end] = message.equal_range(name);
  for (auto each = begin; each != end; ++each) {
    values.emplace_back(each->value().data(), each->value().size());
  }
  return values;
}

absl::StatusOr<HttpTarget> TargetOf(const http::request<http::empty_body>& message) {
  constexpr unsigned kHttp11 = 11;
  return ReadHttpTarget({message.target().data(), message.target().size()},
                        ValuesOf(message, http::field::host), message.version() >= kHttp11);
}

HttpRequest RequestOf(const http::request<http::empty_body>& message, HttpTarget target,
                      std::string peer, CallerCredentials certificate) {
  HttpRequest request;
  request.path = std::move(target.path);
  request.host = std::move(target.host);
  const auto accept = message[http::field::accept];
  request.accept = std::string(accept.data(), accept.size());
  request.authorization = ValuesOf(message, http::field::authorization);
  request.peer = std::move(peer);
  request.certificate = std::move(certificate);
  return request;
}

HttpAnswer Rejection(HttpCode code, absl::string_view why) {
  HttpAnswer answer;
  answer.code = code;
  answer.body = std::string(why) + "\n";
  return answer;
}

// One connection's life: handshake, then requests and answers in turn. Its pending operation keeps
// it alive, and each has a time by which it must end.
template <typename Channel>
class Connection : public std::enable_shared_from_this<Connection<Channel>> {
 public:
  template <typename... Arguments>
  Connection(Shared* shared, std::string peer, Arguments&&... arguments)
      : shared_(shared),
        peer_(std::move(peer)),
        channel_(std::forward<Arguments>(arguments)...),
        buffer_(kBufferBytes) {}

  void Start() {
    if constexpr (kIsTls) {
      Expire();
      channel_.async_handshake(asio::ssl::stream_base::server,
                               [self = this->shared_from_this()](ErrorCode error) {
                                 if (error) return self->Count(error);
                                 self->certificate_ = CertificateOf(self->channel_.native_handle());
                                 self->Read();
                               });
    } else {
      Read();
    }
  }

 private:
  static constexpr bool kIsTls = !std::is_same_v<Channel, Plain>;
  // A header that is too long is seen to be before the buffer is full.
  static constexpr std::size_t kBufferBytes = 2 * HttpServer::kHeaderBytes;
  static constexpr std::size_t kMostDiscarded = 16 * kBufferBytes;

  void Expire() { beast::get_lowest_layer(channel_).expires_after(shared_->timeout); }

  void Count(ErrorCode error) {
    if (error == beast::error::timeout) ++shared_->timeouts;
  }

  void Read() {
    parser_.emplace();
    parser_->header_limit(HttpServer::kHeaderBytes);
    Expire();
    http::async_read(channel_, buffer_, *parser_,
                     [self = this->shared_from_this()](ErrorCode error, std::size_t /*bytes*/) {
                       self->OnRead(error);
                     });
  }

  void OnRead(ErrorCode error) {
    if (error == http::error::end_of_stream) return Close();
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return Reject(HttpCode::kHeadersTooLarge, "a request may have 8192 bytes of headers");
    }
    if (error == http::error::unexpected_body || error == http::error::body_limit) {
      return Reject(HttpCode::kBadRequest, "a request may have no body");
    }
    if (error && error.category() == make_error_code(http::error::bad_target).category() &&
        error != http::error::partial_message) {
      return Reject(HttpCode::kBadRequest, "this is no request of HTTP/1.1: " + error.message());
    }
    if (error) return Count(error);
    const http::request<http::empty_body>& request = parser_->get();
    is_head_ = request.method() == http::verb::head;
    keeps_alive_ = request.keep_alive();
    if (request.method() != http::verb::get && !is_head_) {
      HttpAnswer answer = Rejection(HttpCode::kMethodNotAllowed, "pages are read by GET or HEAD");
      answer.headers.emplace_back("Allow", "GET, HEAD");
      ++shared_->rejected;
      return Write(std::move(answer));
    }
    absl::StatusOr<HttpTarget> target = TargetOf(request);
    if (!target.ok()) {
      return Reject(HttpCode::kBadRequest, std::string(target.status().message()));
    }
    ++shared_->requests;
    Write(shared_->handler(RequestOf(request, *std::move(target), peer_, certificate_)));
  }

  // Answers, and takes no more requests: the bytes that follow may not be a request's beginning.
  void Reject(HttpCode code, const std::string& why) {
    ++shared_->rejected;
    is_rejected_ = true;
    keeps_alive_ = false;
    is_head_ = false;
    Write(Rejection(code, why));
  }

  void Write(HttpAnswer answer) {
    response_ = {};
    response_.result(static_cast<unsigned>(answer.code));
    response_.set(http::field::content_type, answer.content_type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : answer.headers) response_.set(name, value);
    response_.keep_alive(keeps_alive_);
    response_.content_length(answer.body.size());
    if (!is_head_) response_.body() = std::move(answer.body);
    serializer_.emplace(response_);
    Expire();
    auto done = [self = this->shared_from_this()](ErrorCode error, std::size_t /*bytes*/) {
      if (error) return self->Count(error);
      self->keeps_alive_ ? self->Read() : self->Close();
    };
    if (is_head_) {
      http::async_write_header(channel_, *serializer_, std::move(done));
    } else {
      http::async_write(channel_, *serializer_, std::move(done));
    }
  }

  // The client reads all of the answer before it sees the end.
  void Close() {
    if (is_rejected_) return Linger();
    if constexpr (kIsTls) {
      Expire();
      channel_.async_shutdown([self = this->shared_from_this()](ErrorCode /*error*/) {});
    } else {
      ErrorCode ignored;
      channel_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
    }
  }

  // If bytes were left unread, the system would send a reset, which takes the answer from the
  // client. So some more are read, and forgotten, as long as an answer may take.
  void Linger() {
    ErrorCode ignored;
    beast::get_lowest_layer(channel_).socket().shutdown(asio::socket_base::shutdown_send, ignored);
    Expire();
    Discard(0);
  }

  void Discard(std::size_t discarded) {
    buffer_.clear();
    channel_.async_read_some(
        buffer_.prepare(kBufferBytes),
        [self = this->shared_from_this(), discarded](ErrorCode error, std::size_t bytes) {
          if (!error && discarded < kMostDiscarded) self->Discard(discarded + bytes);
        });
  }

  Shared* const shared_;
  const std::string peer_;
  Channel channel_;
  beast::flat_buffer buffer_;
  CallerCredentials certificate_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  bool is_head_ = false;
  bool keeps_alive_ = false;
  bool is_rejected_ = false;
};

// A connection whose context must live as long.
class TlsConnection final : public Connection<Tls> {
 public:
  TlsConnection(Shared* shared, std::string peer, Socket socket, TlsContext::Context context)
      : Connection<Tls>(shared, std::move(peer), std::move(socket), *context),
        context_(std::move(context)) {}

 private:
  const TlsContext::Context context_;
};

int FamilyOf(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
  return own.ss_family;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, const Clock* clock, Handler handler,
       ListeningSockets sockets, std::optional<TlsContext> tls)
      : sockets_(std::move(sockets)),
        tls_(std::move(tls)),
        table_(options.connections, options.reading, clock) {
    shared_.handler = std::move(handler);
    shared_.timeout = std::chrono::milliseconds(options.timeout_ms);
    thread_ = std::thread([this] { io_.run(); });
    acceptor_.emplace(
        sockets_.sockets(), &table_, clock, [](const std::string&) { return absl::OkStatus(); },
        [this](int fd) { Take(fd); });
  }
  ~Impl() {
    acceptor_.reset();
    io_.stop();
    thread_.join();
  }

  void SetLimits(const ConnectionTable::Limits& connections, const ProgressLimit& reading) {
    table_.SetLimits(connections, reading);
  }
  int port() const { return sockets_.port(); }
  Counts counts() const { return {shared_.requests, shared_.rejected, shared_.timeouts}; }

 private:
  void Take(int fd) {
    std::string peer = EndpointOf(fd);
    const int family = FamilyOf(fd);
    auto socket = std::make_shared<Socket>(io_);
    ErrorCode error;
    if (socket->assign({family, family == AF_UNIX ? 0 : IPPROTO_TCP}, fd, error)) {
      close(fd);
      return;
    }
    asio::post(io_, [this, socket = std::move(socket), peer = std::move(peer)]() mutable {
      Begin(std::move(*socket), std::move(peer));
    });
  }

  void Begin(Socket socket, std::string peer) {
    if (tls_.has_value()) {
      std::make_shared<TlsConnection>(&shared_, std::move(peer), std::move(socket), tls_->Current())
          ->Start();
    } else {
      std::make_shared<Connection<Plain>>(&shared_, std::move(peer), std::move(socket))->Start();
    }
  }

  Shared shared_;
  const ListeningSockets sockets_;
  std::optional<TlsContext> tls_;  // none: plaintext
  ConnectionTable table_;
  asio::io_context io_{1};  // holds the connections
  const asio::executor_work_guard<asio::io_context::executor_type> work_ =
      asio::make_work_guard(io_);
  std::thread thread_;
  std::optional<Acceptor> acceptor_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                              const Clock* clock, Handler handler) {
  std::optional<TlsContext> tls;
  if (!options.tls.certificate_file.empty()) {
    absl::StatusOr<TlsContext> made = TlsContext::Make(options.tls, clock);
    if (!made.ok()) return made.status();
    tls = *std::move(made);
  }
  absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Listen(options.listen);
  if (!sockets.ok()) return sockets.status();
  return std::unique_ptr<HttpServer>(new HttpServer(std::make_unique<Impl>(
      options, clock, std::move(handler), *std::move(sockets), std::move(tls))));
}

void HttpServer::SetLimits(const ConnectionTable::Limits& connections,
                           const ProgressLimit& reading) {
  impl_->SetLimits(connections, reading);
}

int HttpServer::port() const { return impl_->port(); }
HttpServer::Counts HttpServer::counts() const { return impl_->counts(); }

}  // namespace gemmd
