// The options that every command shares, and the client made of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "client/cli/failure.h"
#include "client/client.h"
#include "client/operands.h"

namespace gemmd::cli {

struct GlobalOptions {
  std::string server = "127.0.0.1:50051";  // one, or several with commas between them
  absl::Duration timeout = absl::Seconds(60);
  // The attempts that it has time for are those of the library's default.
  absl::Duration patience = absl::Seconds(6);
  bool json = false;
  bool affinity_header = false;
  std::string tenant;  // whose matrices the server keeps
  std::string token_file;
  bool plaintext_token = false;

  bool tls = false;
  std::string tls_root_certs;  // paths, all of them
  std::string tls_client_cert;
  std::string tls_client_key;
  std::string tls_server_name;
};

// `options` must outlive the parse.
void AddGlobalOptions(CLI::App& app, GlobalOptions& options);

// Returns the servers' addresses with their ports; the texts as they are where one is wrong.
std::vector<std::string> ServersOf(const GlobalOptions& options);

// Refuses several servers, for a command that tells of one.
Outcome WantOneServer(const GlobalOptions& options, const std::string& command);

// Checks the servers' addresses and reads the token and the certificates. With several servers the
// channel has no address.
Outcome ReadChannelOptions(const GlobalOptions& options, client::ChannelOptions& channel);

// Does not wait for the server. Where no connection can be made, the first call that is tried again
// says so on standard error.
Outcome Connect(const GlobalOptions& options, std::unique_ptr<client::Client>& result);

Outcome Connect(const GlobalOptions& options, std::unique_ptr<client::Operands>& result);

client::CallOptions CallWithin(absl::Duration timeout);

}  // namespace gemmd::cli
