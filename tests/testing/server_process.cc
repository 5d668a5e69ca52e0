#include "tests/testing/server_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "nlohmann/json.hpp"

extern char** environ;

namespace gemmd::testing {
namespace {

constexpr char kBinary[] = "server/gemmd";

// Exit codes (README, "For operators").
constexpr int kDrained = 0;
constexpr int kDrainCutShort = 3;

}  // namespace

ServerProcess::ServerProcess(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {kBinary, "--listen=127.0.0.1:0"});
  std::vector<char*> argv;
  argv.reserve(flags.size() + 1);
  for (std::string& flag : flags) argv.push_back(flag.data());
  argv.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  // The server drops what finds no room, and it is read at the end. Without memory jemalloc alone
  // says 64 KiB, as many as a pipe has by default.
  constexpr int kLogBytes = 1 << 20;
  if (fcntl(ends[0], F_SETPIPE_SZ, kLogBytes) < 0) std::abort();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  if (posix_spawn(&pid_, kBinary, &actions, nullptr, argv.data(), environ) != 0) std::abort();
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  log_fd_ = ends[0];

  std::string line;
  while (ReadLine(&line)) {
    const nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_object()) continue;
    if (event.value("event", "") == "observing") observe_address_ = event.value("address", "");
    if (event.value("event", "") == "serving") {
      address_ = event.value("address", "");
      return;
    }
  }
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    // It drains, so that a sanitizer looks for what it leaks; what a test leaves under way may
    // outlast the drain.
    Signal(SIGTERM);
    const int code = WaitForExit();
    const bool is_free_to_end = address_.empty() || is_killed_;  // never served, or by the test
    if (code != kDrained && code != kDrainCutShort && !is_free_to_end) {
      ADD_FAILURE() << "gemmd ended with exit code " << code << "\n" << log_;
    }
  }
  CloseLog();
}

std::shared_ptr<grpc::Channel> ServerProcess::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
}

void ServerProcess::Signal(int signal) {
  is_killed_ = is_killed_ || signal == SIGKILL;
  kill(pid_, signal);
}

std::string ServerProcess::AwaitLine(const std::string& text) {
  std::string line;
  while (ReadLine(&line)) {
    if (line.find(text) != std::string::npos) return line;
  }
  return "";
}

void ServerProcess::CloseLog() {
  if (log_fd_ >= 0) close(log_fd_);
  log_fd_ = -1;
}

int ServerProcess::WaitForExit() {
  std::string line;
  while (ReadLine(&line)) {
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool ServerProcess::ReadLine(std::string* line) {
  while (true) {
    const std::size_t end = buffered_.find('\n');
    if (end != std::string::npos) {
      *line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return true;
    }
    char bytes[4096];
    const ssize_t count = read(log_fd_, bytes, sizeof bytes);
    if (count <= 0) return false;
    buffered_.append(bytes, count);
    log_.append(bytes, count);
  }
}

}  // namespace gemmd::testing
