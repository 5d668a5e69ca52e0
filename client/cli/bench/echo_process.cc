#include "client/cli/bench/echo_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <optional>

#include "client/load/transport/echo_server.h"
#include "client/load/transport/self_signed.h"

namespace gemmd::cli {
namespace {

constexpr char kName[] = "echo.gemmd";  // in its certificate

Failure CannotStart(const std::string& why) {
  return Failure{ExitCode::kInternal, "echo server", why, std::nullopt};
}

std::string ReadLine(int descriptor) {
  std::string line;
  char next = 0;
  while (true) {
    const ssize_t got = read(descriptor, &next, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1) return "";
    if (next == '\n') return line;
    line += next;
  }
}

// Up to the line that ends it; empty where none comes.
std::string ReadCertificate(int descriptor) {
  std::string certificate;
  while (true) {
    const std::string line = ReadLine(descriptor);
    if (line.empty()) return "";
    certificate += line + "\n";
    if (line == "-----END CERTIFICATE-----") return certificate;
  }
}

}  // namespace

EchoProcess::~EchoProcess() {
  if (input_ >= 0) close(input_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

Outcome EchoProcess::Start(bool tls) {
  int to[2];
  int from[2];
  if (pipe2(to, O_CLOEXEC) != 0) return CannotStart("no pipe to it");
  if (pipe2(from, O_CLOEXEC) != 0) {
    close(to[0]);
    close(to[1]);
    return CannotStart("no pipe from it");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  char program[] = "gemm";
  char command[] = "bench";
  char subcommand[] = "echo-server";
  char encrypted[] = "--encrypted";
  char* arguments[] = {program, command, subcommand, tls ? encrypted : nullptr, nullptr};
  // GEMMD_TLS and its like are not for the echo.
  char* environment[] = {nullptr};
  const int error = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environment);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  input_ = to[1];
  if (error != 0) pid_ = -1;
  if (error == 0) address_ = ReadLine(from[0]);
  if (tls && !address_.empty()) certificate_ = ReadCertificate(from[0]);
  close(from[0]);
  if (address_.empty() || (tls && certificate_.empty())) return CannotStart("it did not start");
  return std::nullopt;
}

client::ChannelOptions EchoProcess::Channel() const {
  client::ChannelOptions channel;
  channel.target = address_;
  if (!certificate_.empty()) {
    client::TlsOptions& tls = channel.tls.emplace();
    tls.root_certificates = certificate_;
    tls.server_name_override = kName;
  }
  return channel;
}

Outcome RunEchoServer(bool tls) {
  std::optional<load::CertifiedKey> key;
  if (tls) key = load::MakeSelfSigned(kName);
  const load::EchoServer server(key);
  if (server.address().empty()) return CannotStart("no free port on 127.0.0.1");
  std::cout << server.address() << "\n";
  if (key) std::cout << key->certificate;
  std::cout << std::flush;
  char ignored = 0;
  while (true) {
    const ssize_t got = read(STDIN_FILENO, &ignored, 1);
    if (got == 0 || (got < 0 && errno != EINTR)) return std::nullopt;
  }
}

}  // namespace gemmd::cli
