#include "server/options/options.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

absl::StatusOr<CommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "gemmd");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

config::ServerConfig Config(const absl::StatusOr<CommandLine>& command) {
  EXPECT_TRUE(command.ok()) << command.status();
  return command.ok() ? std::get<config::ServerConfig>(*command) : config::ServerConfig();
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return "--config=" + path;
}

TEST(Options, DefaultsAreValid) {
  const config::ServerConfig config = Config(Parse({}));
  EXPECT_EQ(config.listen(), "127.0.0.1:50051");
  EXPECT_EQ(config.limits().message_bytes(), 67108864);
  EXPECT_TRUE(Validate(config).ok());
}

TEST(Options, FlagsWinOverTheFileAndTheFileOverDefaults) {
  const std::string file =
      WriteFile("good", "listen: \"[::1]:1\" cpu { threads: 3 memory_bytes: 4096 }");
  const config::ServerConfig config = Config(Parse({file.c_str(), "--cpu.threads=5"}));
  EXPECT_EQ(config.listen(), "[::1]:1");
  EXPECT_EQ(config.cpu().threads(), 5);
  EXPECT_EQ(config.cpu().memory_bytes(), 4096);
}

TEST(Options, ErrorsNameFlagValueAndRange) {
  EXPECT_EQ(Parse({"--limits.message-bytes=1"}).status().message(),
            "--limits.message-bytes is 1; it must be 4096 to 2147483647");
  EXPECT_EQ(Parse({"--limits.message-bytes=2147483648"}).status().message(),
            "--limits.message-bytes is 2147483648; it must be 4096 to 2147483647");
  EXPECT_TRUE(Parse({"--limits.message-bytes=4096"}).ok());
  EXPECT_TRUE(Parse({"--limits.message-bytes=2147483647"}).ok());
  EXPECT_EQ(Parse({"--cpu.threads=many"}).status().message(),
            "--cpu.threads is \"many\"; it must be an integer");
  EXPECT_EQ(Parse({"--device=tpu"}).status().message(),
            "--device is \"tpu\"; it must be auto, cpu, cuda, emulated");
  EXPECT_EQ(Parse({"--tls.key-file=x"}).status().message(),
            "--tls.certificate-file and --tls.key-file go together: one of them is empty");
  EXPECT_NE(Parse({"--lissten=x"}).status().message().find("--lissten"), std::string::npos);
}

TEST(Options, WhatTlsNeedsOfAnotherOptionIsSaid) {
  const auto why = [](const std::vector<const char*>& more) {
    std::vector<const char*> flags = {"--tls.certificate-file=c", "--tls.key-file=k"};
    flags.insert(flags.end(), more.begin(), more.end());
    return std::string(Parse(flags).status().message());
  };
  EXPECT_EQ(why({"--tls.client-ca-file=a", "--tls.crl-directory=d"}), "");
  EXPECT_EQ(why({"--tls.client-certificates=none"}), "");
  EXPECT_EQ(why({"--tls.crl-directory=d"}),
            "--tls.crl-directory is \"d\"; it needs --tls.client-ca-file, which is empty");
  EXPECT_EQ(why({"--tls.client-certificates=optional"}),
            "--tls.client-certificates is \"optional\"; it needs --tls.client-ca-file, which is "
            "empty");
  EXPECT_EQ(why({"--tls.client-certificates=required"}),
            "--tls.client-certificates is \"required\"; it needs --tls.client-ca-file, which is "
            "empty");
  EXPECT_EQ(Parse({"--tls.client-ca-file=a"}).status().message(),
            "--tls.client-ca-file is \"a\"; it needs --tls.certificate-file, which is empty");
}

TEST(Options, ADefaultLeaseIsNotOverTheLongest) {
  for (const char* const part : {"--operands", "--shared-memory"}) {
    const auto parse = [part](int default_ms) {
      return Parse({absl::StrCat(part, ".default-lease-ms=", default_ms).c_str(),
                    absl::StrCat(part, ".max-lease-ms=2000").c_str()});
    };
    EXPECT_TRUE(parse(2000).ok());
    EXPECT_EQ(parse(2001).status().message(),
              absl::StrCat(part, ".default-lease-ms is 2001; it must not be over ", part,
                           ".max-lease-ms, 2000"));
  }
}

TEST(Options, ListensWhereASocketCanBe) {
  for (const char* listen : {"--listen=:1", "--listen=localhost", "--listen=localhost:99999"}) {
    EXPECT_NE(Parse({listen}).status().message().find("with a port of 0 to 65535"),
              std::string::npos)
        << listen;
  }
  for (const char* listen : {"--listen=[::1]:0", "--listen=unix:/run/gemmd"}) {
    EXPECT_TRUE(Parse({listen}).ok()) << listen;
  }
}

TEST(Options, WhereOthersCanConnectTlsOrInsecureMustBeSaid) {
  for (const char* listen : {"--listen=0.0.0.0:1", "--listen=[::]:1", "--listen=10.0.0.1:1",
                             "--listen=gemm.example.org:1"}) {
    EXPECT_NE(Parse({listen}).status().message().find("--insecure"), std::string::npos) << listen;
    EXPECT_TRUE(Parse({listen, "--insecure"}).ok()) << listen;
    EXPECT_TRUE(Parse({listen, "--insecure=on"}).ok()) << listen;
    EXPECT_FALSE(Parse({listen, "--insecure=off"}).ok()) << listen;
    EXPECT_TRUE(Parse({listen, "--tls.certificate-file=c", "--tls.key-file=k"}).ok()) << listen;
  }
  const char* const observe = "--observe.listen=0.0.0.0:1";
  EXPECT_NE(Parse({observe}).status().message().find("--observe.listen is \"0.0.0.0:1\""),
            std::string::npos);
  EXPECT_TRUE(Parse({observe, "--insecure"}).ok());
  EXPECT_TRUE(Parse({observe, "--tls.certificate-file=c", "--tls.key-file=k"}).ok());
  EXPECT_TRUE(Parse({"--observe.listen=127.0.0.1:0"}).ok());
  EXPECT_FALSE(Parse({"--observe.listen=nowhere"}).ok());
  EXPECT_EQ(Parse({"--insecure=yes"}).status().message(),
            "--insecure is \"yes\"; it must be on, off");
}

TEST(Options, ProxiesAreNamedAsTheirConnectionsAre) {
  for (const char* list : {"10.0.0.2", "10.0.0.2,10.0.0.3", "2001:db8::/64,127.0.0.1"}) {
    const std::string flag = absl::StrCat("--limits.proxy-protocol=", list);
    EXPECT_TRUE(Parse({flag.c_str()}).ok()) << list;
  }
  for (const char* name : {"10.0.0", "010.0.0.2", "10.0.0.0/24", "10.0.0.2/64", "2001:db8::2",
                           "2001:db8::2/64", "2001:DB8::/64", "unix", "localhost", "::/0"}) {
    const std::string flag = absl::StrCat("--limits.proxy-protocol=127.0.0.1,", name);
    EXPECT_EQ(Parse({flag.c_str()}).status().message(),
              absl::StrCat("--limits.proxy-protocol has \"", name,
                           "\"; it must be an IPv4 address, or a network of IPv6 as "
                           "\"2001:db8::/64\""));
  }
}

TEST(Options, FileErrorsNameFileLineAndField) {
  const std::string file = WriteFile("bad", "listen: \"x:1\"\nthreds: 3\n");
  const absl::Status status = Parse({file.c_str()}).status();
  EXPECT_NE(status.message().find("bad:2:"), std::string::npos) << status;
  EXPECT_NE(status.message().find("threds"), std::string::npos) << status;
  EXPECT_NE(Parse({"--config=/nonexistent"}).status().message().find("cannot be read"),
            std::string::npos);
  EXPECT_EQ(Parse({"--config=/tmp"}).status().message(),
            "--config is \"/tmp\", which cannot be read: it is no regular file");
  // It opens, and its first bytes cannot be read, whoever reads.
  EXPECT_EQ(Parse({"--config=/proc/self/mem"}).status().message(),
            "--config is \"/proc/self/mem\", which cannot be read: Input/output error");
  const std::string out_of_range = WriteFile("range", "log { level: \"loud\" }");
  EXPECT_EQ(Parse({out_of_range.c_str()}).status().message(),
            "--log.level is \"loud\"; it must be debug, info, warning, error");
}

TEST(Options, AnEmptyFileIsAllDefaults) {
  const std::string file = WriteFile("empty", "");
  EXPECT_EQ(Config(Parse({file.c_str()})).listen(), "127.0.0.1:50051");
}

TEST(Options, HelpShowsEveryOptionWithItsRange) {
  const absl::StatusOr<CommandLine> command = Parse({"--help"});
  ASSERT_TRUE(command.ok());
  const auto& text = std::get<std::string>(*command);
  for (const char* word :
       {"--listen", "--limits.message-bytes", "4096 to 2147483647", "auto | cpu | cuda | emulated",
        "Exit codes", "Examples", "4 a device was lost"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace gemmd
