// Any bytes may come over a connection: it ends, and no page sees more than one line of a header.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "server/observe_http/http_server.h"

namespace {

const std::string& Path() {
  static const std::string& path =
      *new std::string("/tmp/gemmd-http-fuzz-" + std::to_string(getpid()));
  return path;
}

void CheckOneLine(const std::string& text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\t'; };
  if (std::any_of(text.begin(), text.end(), is_control)) std::abort();
}

gemmd::HttpAnswer Check(const gemmd::HttpRequest& request) {
  CheckOneLine(request.path);
  CheckOneLine(request.accept);
  CheckOneLine(request.host);
  for (const std::string& each : request.authorization) CheckOneLine(each);
  if (request.path.substr(0, 1) != "/" || request.path.find('?') != std::string::npos) std::abort();
  gemmd::HttpAnswer answer;
  answer.body = request.path;
  return answer;
}

void StartServer() {
  gemmd::HttpServerOptions options;
  options.listen = "unix:" + Path();
  options.connections.all = options.connections.per_peer = 1024;
  options.connections.look_interval = 0;
  static const gemmd::SteadyClock& clock = *new gemmd::SteadyClock;
  static const auto& server = *new auto(gemmd::HttpServer::Start(options, &clock, Check));
  if (!server.ok()) std::abort();
  std::atexit([] { unlink(Path().c_str()); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool is_started = (StartServer(), true);
  static_cast<void>(is_started);
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, Path().c_str(), sizeof address.sun_path - 1);
  if (connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::abort();
  send(file, data, size, MSG_NOSIGNAL);  // may fail: the server may have heard enough
  shutdown(file, SHUT_WR);
  char answer[4096];
  while (recv(file, answer, sizeof answer, 0) > 0) {
  }
  close(file);
  return 0;
}
