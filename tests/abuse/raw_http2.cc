#include "tests/abuse/raw_http2.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "gtest/gtest.h"

namespace gemmd::testing {
namespace {

enum FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kWindowUpdate = 8,
  kContinuation = 9,
};
constexpr char kEndStream = 0x1;
constexpr char kEndHeaders = 0x4;

std::string BigEndian(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

std::string Frame(FrameType type, char flags, std::uint32_t stream, const std::string& payload) {
  return BigEndian(static_cast<std::uint32_t>(payload.size()), 3) + static_cast<char>(type) +
         flags + BigEndian(stream, 4) + payload;
}

std::string ResetFrame(std::uint32_t stream) {
  constexpr std::uint32_t kCancel = 8;
  return Frame(kReset, 0, stream, BigEndian(kCancel, 4));
}

// A string of HPACK, not in Huffman's code: its length in a prefix of seven bits, and more bytes
// where that is too short.
std::string HpackString(const std::string& text) {
  constexpr std::size_t kPrefix = 127;
  constexpr std::size_t kBits = 7;
  if (text.size() < kPrefix) return static_cast<char>(text.size()) + text;
  std::string length(1, static_cast<char>(kPrefix));
  std::size_t rest = text.size() - kPrefix;
  for (; rest > kPrefix; rest >>= kBits) length.push_back(static_cast<char>(rest | 0x80));
  length.push_back(static_cast<char>(rest));
  return length + text;
}

int ConnectToPath(const std::string& path) {
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  path.copy(to.sun_path, sizeof to.sun_path - 1);
  EXPECT_EQ(connect(file, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0) << path;
  return file;
}

int ConnectTo(const std::string& address, const RawConnection::Options& options) {
  constexpr std::size_t kScheme = 5;
  if (address.compare(0, kScheme, "unix:") == 0) return ConnectToPath(address.substr(kScheme));
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (options.receive_buffer != 0) {
    setsockopt(file, SOL_SOCKET, SO_RCVBUF, &options.receive_buffer, sizeof options.receive_buffer);
  }
  if (!options.source.empty()) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    inet_pton(AF_INET, options.source.c_str(), &from.sin_addr);
    EXPECT_EQ(bind(file, reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
  }
  if (options.patience_s != 0) {
    const timeval patience{options.patience_s, 0};
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  const std::size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const bool is_connected = connect(file, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  EXPECT_TRUE(is_connected || options.patience_s != 0);
  return file;
}

// The fields of a call, as one block.
std::string CallBlock(const std::string& address, const std::string& path,
                      const RawHeaders& headers) {
  std::string block = RawField(":method", "POST") + RawField(":scheme", "http") +
                      RawField(":path", path) + RawField(":authority", address) +
                      RawField("te", "trailers") + RawField("content-type", "application/grpc");
  for (const auto& [name, value] : headers) block += RawField(name, value);
  return block;
}

}  // namespace

std::string RawField(const std::string& name, const std::string& value, FieldForm form) {
  const char first = form == FieldForm::kPlain ? 0x00 : form == FieldForm::kIndexed ? 0x40 : 0x10;
  return first + HpackString(name) + HpackString(value);
}

std::string RawMessage(bool is_compressed, const std::string& bytes) {
  return static_cast<char>(is_compressed) + BigEndian(static_cast<std::uint32_t>(bytes.size()), 4) +
         bytes;
}

std::string RawMessageStart(std::uint32_t bytes) { return '\0' + BigEndian(bytes, 4); }

RawConnection::RawConnection(const std::string& address, const Options& options)
    : file_(ConnectTo(address, options)), patience_s_(options.patience_s), address_(address) {
  constexpr std::uint32_t kInitialWindow = 65535;
  std::string begin = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  begin += Frame(kSettings, 0, 0, BigEndian(4, 2) + BigEndian(options.stream_window, 4));
  if (options.window > kInitialWindow) {
    begin += Frame(kWindowUpdate, 0, 0, BigEndian(options.window - kInitialWindow, 4));
  }
  Write(begin);
}

RawConnection::~RawConnection() { close(file_); }

std::uint32_t RawConnection::Begin(const std::string& path, const RawHeaders& headers) {
  const std::uint32_t stream = next_stream_;
  next_stream_ += 2;
  Write(Frame(kHeaders, kEndHeaders, stream, CallBlock(address_, path, headers)));
  return stream;
}

void RawConnection::Send(std::uint32_t stream, const std::string& bytes, bool is_last) {
  Write(Frame(kData, is_last ? kEndStream : 0, stream, bytes));
}

std::size_t RawConnection::SendAsAllowed(std::uint32_t stream, const std::string& begin,
                                         std::size_t bytes) {
  constexpr std::int64_t kFrameBytes = 16384;
  std::int64_t& stream_window = stream_windows_[stream];
  std::size_t sent = 0;
  while (sent < bytes) {
    const std::int64_t room = std::min(
        {window_, initial_ + stream_window, kFrameBytes, static_cast<std::int64_t>(bytes - sent)});
    if (room <= 0) {
      if (!HeedFrames(stream)) break;
      continue;
    }
    std::string piece(static_cast<std::size_t>(room), 'x');
    if (sent == 0) piece.replace(0, begin.size(), begin);
    if (!Write(Frame(kData, 0, stream, piece))) break;
    sent += piece.size();
    window_ -= room;
    stream_window -= room;
  }
  return sent;
}

bool RawConnection::HeedFrames(std::uint32_t stream) {
  constexpr std::size_t kHead = 9;
  if (!Receive(&unparsed_)) return false;
  const auto number = [this](std::size_t at, int bytes) {
    std::uint32_t value = 0;
    for (int i = 0; i < bytes; ++i)
      value = value << 8 | static_cast<unsigned char>(unparsed_[at + i]);
    return value;
  };
  std::size_t at = 0;
  while (unparsed_.size() - at >= kHead && unparsed_.size() - at >= kHead + number(at, 3)) {
    const std::size_t size = number(at, 3);
    const auto type = static_cast<FrameType>(unparsed_[at + 3]);
    const std::uint32_t of = number(at + 5, 4);
    const bool is_answer = (unparsed_[at + 4] & 1) != 0;
    at += kHead;
    if (type == kReset && of == stream) return false;
    if (type == kWindowUpdate) (of == 0 ? window_ : stream_windows_[of]) += number(at, 4);
    if (type == kSettings && !is_answer) {
      constexpr std::uint32_t kInitialWindow = 4;
      for (std::size_t i = 0; i < size; i += 6) {
        if (number(at + i, 2) == kInitialWindow) initial_ = number(at + i + 2, 4);
      }
      Write(Frame(kSettings, 1, 0, ""));
    }
    at += size;
  }
  unparsed_.erase(0, at);
  return true;
}

bool RawConnection::Reset(std::uint32_t stream) { return Write(ResetFrame(stream)); }

bool RawConnection::BeginAndReset(const std::string& path, int count) {
  const std::string block = CallBlock(address_, path, {});
  std::string frames;
  for (int i = 0; i < count; ++i, next_stream_ += 2) {
    frames += Frame(kHeaders, kEndHeaders, next_stream_, block) + ResetFrame(next_stream_);
  }
  return Write(frames);
}

bool RawConnection::BeginWith(const std::string& block, bool is_whole) {
  constexpr std::size_t kFrameBytes = 16384;
  std::string frames;
  for (std::size_t at = 0; at < block.size(); at += kFrameBytes) {
    const bool is_last = is_whole && block.size() - at <= kFrameBytes;
    frames += Frame(at == 0 ? kHeaders : kContinuation, is_last ? kEndHeaders : '\0', next_stream_,
                    block.substr(at, kFrameBytes));
  }
  next_stream_ += 2;
  return Write(frames);
}

std::string RawConnection::SendLastHeaders(const std::string& block, std::size_t frame_bytes) {
  std::string frames;
  for (std::size_t at = 0; at < block.size(); at += frame_bytes) {
    const bool is_last = block.size() - at <= frame_bytes;
    frames += Frame(at == 0 ? kHeaders : kContinuation,
                    static_cast<char>((at == 0 ? kEndStream : 0) | (is_last ? kEndHeaders : 0)),
                    next_stream_, block.substr(at, frame_bytes));
  }
  Write(frames);
  // The server may wait for something that never comes: then this ends the connection.
  shutdown(file_, SHUT_WR);
  return ReceiveEnd(next_stream_);
}

void RawConnection::AwaitClose() const {
  pollfd closed{file_, 0, 0};  // POLLHUP and POLLERR are told without being asked for
  poll(&closed, 1, -1);
}

bool RawConnection::Receive(std::string* bytes) {
  char buffer[1 << 16];
  const ssize_t count = recv(file_, buffer, sizeof buffer, 0);
  if (count <= 0) return false;
  bytes->append(buffer, count);
  return true;
}

std::string RawConnection::ReceiveEnd(std::uint32_t stream) {
  std::string answer;
  while (RawHeader(answer, "grpc-status").empty() && !IsReset(answer, stream) && Receive(&answer)) {
  }
  return answer;
}

// False: the server has closed the connection, which is asked for: a thread that blocks in send()
// behind a full window learns of it when Linux gives the other end up, a minute later.
bool RawConnection::Write(const std::string& bytes) const {
  constexpr int kMsPerSecond = 1000;
  for (std::size_t sent = 0; sent < bytes.size();) {
    pollfd ready{file_, POLLOUT | POLLRDHUP, 0};
    if (poll(&ready, 1, patience_s_ == 0 ? -1 : patience_s_ * kMsPerSecond) != 1) return false;
    if ((ready.revents & ~POLLOUT) != 0) return false;
    const ssize_t count =
        send(file_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count <= 0) return false;
    sent += count;
  }
  return true;
}

bool IsReset(const std::string& answer, std::uint32_t stream) {
  return answer.find(BigEndian(4, 3) + static_cast<char>(kReset) + std::string(1, '\0') +
                     BigEndian(stream, 4)) != std::string::npos;
}

std::string RawCall(const std::string& address, const std::string& path, const RawHeaders& headers,
                    const std::string& body) {
  RawConnection connection(address);
  const std::uint32_t stream = connection.Begin(path, headers);
  connection.Send(stream, body, true);
  return connection.ReceiveEnd(stream);
}

// gRPC's server writes a header as a literal when it comes first on a connection, and never in
// Huffman's code. A length of 127 and more goes on in further bytes, seven bits each.
std::string RawHeader(const std::string& answer, const std::string& name) {
  const std::size_t found = answer.find(static_cast<char>(name.size()) + name);
  if (found == std::string::npos) return {};
  std::size_t at = found + 1 + name.size();
  const auto next = [&] {
    return at < answer.size() ? static_cast<unsigned char>(answer[at++]) : 0U;
  };
  std::size_t length = next();
  if (length == 127) {
    unsigned byte = 0;
    int shift = 0;
    do {
      byte = next();
      length += static_cast<std::size_t>(byte & 127U) << shift;
      shift += 7;
    } while (byte > 127);
  }
  return at < answer.size() ? answer.substr(at, length) : "";
}

}  // namespace gemmd::testing
