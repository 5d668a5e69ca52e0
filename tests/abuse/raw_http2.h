// HTTP/2 by hand, for what gRPC's client does not send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gemmd::testing {

using RawHeaders = std::vector<std::pair<std::string, std::string>>;

// Five bytes before a message: whether it is compressed, and its length.
std::string RawMessage(bool is_compressed, const std::string& bytes);
// Those of a message that has so many bytes and is not compressed.
std::string RawMessageStart(std::uint32_t bytes);

// A header field as HPACK writes it (RFC 7541, 6.2), by names and values in full. Only what is
// indexed is remembered by the connection's table.
enum class FieldForm : unsigned char { kPlain, kIndexed, kNeverIndexed };
std::string RawField(const std::string& name, const std::string& value,
                     FieldForm form = FieldForm::kPlain);

// A connection whose client does what it likes. The address is HOST:PORT with a numeric host, or
// unix:PATH, for which no option counts but the windows.
class RawConnection {
 public:
  struct Options {
    std::uint32_t stream_window = 65535;  // how much of each answer the server may send unasked
    std::uint32_t window = 65535;         // and of all
    int receive_buffer = 0;               // of the socket; 0: the system's
    std::string source;                   // the client's address; empty: the system's choice
    int patience_s = 0;                   // then a read or a write has failed; 0: never
  };
  explicit RawConnection(const std::string& address) : RawConnection(address, Options()) {}
  // A server that refuses the connection closes it, which what follows then says.
  RawConnection(const std::string& address, const Options& options);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // Begins a call; gives its stream.
  std::uint32_t Begin(const std::string& path, const RawHeaders& headers = {});
  // A piece of the call's message, as one frame.
  void Send(std::uint32_t stream, const std::string& bytes, bool is_last);
  // Sends a piece of the call's message in frames, as the server's windows allow, for so many
  // bytes. Returns how many were sent: fewer if the server closed, reset the call or let no more
  // come.
  std::size_t SendAsAllowed(std::uint32_t stream, const std::string& begin, std::size_t bytes);
  // Ends a call; false: the server has closed.
  bool Reset(std::uint32_t stream);
  // Begins calls and resets them at once, as one piece; false: the server has closed.
  bool BeginAndReset(const std::string& path, int count);

  // Begins a call with these fields and nothing else, which may be the first of its fields; false:
  // the server has closed.
  bool BeginWith(const std::string& block, bool is_whole = true);
  // Begins a call with these fields and nothing else, cut into frames of so many bytes: the first
  // is HEADERS, the others CONTINUATION. Nothing is sent after them. It returns what ReceiveEnd()
  // does.
  std::string SendLastHeaders(const std::string& block, std::size_t frame_bytes);

  // Reads nothing until the server closes.
  void AwaitClose() const;
  // Appends what the server sends next; false: it has closed.
  bool Receive(std::string* bytes);
  // Receives until the stream has ended, by its status or a reset. All that came; without an end if
  // the server closed the connection.
  std::string ReceiveEnd(std::uint32_t stream);

 private:
  bool Write(const std::string& bytes) const;
  // Takes the server's next frames, of which it heeds those that concern what may be sent; answers
  // its settings. False: it has closed, or reset the stream.
  bool HeedFrames(std::uint32_t stream);

  const int file_;
  const int patience_s_;
  const std::string address_;
  std::uint32_t next_stream_ = 1;
  std::string unparsed_;                                  // of what HeedFrames() received
  std::int64_t window_ = 65535;                           // that the server gave to the connection
  std::int64_t initial_ = 65535;                          // and gives to each stream
  std::map<std::uint32_t, std::int64_t> stream_windows_;  // and to each besides, less what was sent
};

// Returns whether the server reset the stream.
bool IsReset(const std::string& answer, std::uint32_t stream);

// Returns the server's bytes from the connection's begin to the call's end, as they are on the
// wire. `body` is sent whole, as one frame.
std::string RawCall(const std::string& address, const std::string& path, const RawHeaders& headers,
                    const std::string& body);

// The value of a header in it; empty if it is not there.
std::string RawHeader(const std::string& answer, const std::string& name);

}  // namespace gemmd::testing
