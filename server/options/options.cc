#include "server/options/options.h"

#include <arpa/inet.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/process/read_file.h"
#include "base/text/address.h"
#include "base/text/network.h"
#include "base/version.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "server/options/config_text.h"

namespace gemmd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// One leaf of the configuration: the way to it, and the flag's text if it was given.
struct Leaf {
  std::vector<const FieldDescriptor*> path;
  std::string flag;
  std::string text;
  CLI::Option* option = nullptr;
};

// A deque, because options keep the addresses of its elements.
void CollectLeaves(const google::protobuf::Descriptor* type,
                   std::vector<const FieldDescriptor*> path, std::deque<Leaf>* leaves) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    path.push_back(field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      CollectLeaves(field->message_type(), path, leaves);
    } else {
      leaves->push_back({path, FlagName(path), {}, nullptr});
    }
    path.pop_back();
  }
}

std::vector<std::string> Choices(const FieldDescriptor* field) {
  std::vector<std::string> choices;
  choices.reserve(field->options().ExtensionSize(config::choice));
  for (int i = 0; i < field->options().ExtensionSize(config::choice); ++i) {
    choices.push_back(field->options().GetExtension(config::choice, i));
  }
  return choices;
}

// "on" or "off": the flag alone is "on".
bool IsSwitch(const FieldDescriptor* field) {
  std::vector<std::string> choices = Choices(field);
  std::sort(choices.begin(), choices.end());
  return choices == std::vector<std::string>{"off", "on"};
}

std::string Help(const FieldDescriptor* field) {
  std::string text = field->options().GetExtension(config::help);
  std::vector<std::string> facts;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    facts.push_back(absl::StrCat(field->options().GetExtension(config::min), " to ",
                                 field->options().GetExtension(config::max)));
    facts.push_back(absl::StrCat("default ", field->default_value_int64()));
  } else {
    const std::vector<std::string> choices = Choices(field);
    if (!choices.empty()) absl::StrAppend(&text, ": ", absl::StrJoin(choices, " | "));
    if (!field->default_value_string().empty()) {
      facts.push_back(absl::StrCat("default ", field->default_value_string()));
    }
  }
  if (field->options().GetExtension(config::reloads)) facts.emplace_back("SIGHUP reloads it");
  if (!facts.empty()) absl::StrAppend(&text, " (", absl::StrJoin(facts, "; "), ")");
  return text;
}

absl::Status CheckField(const std::string& flag, const FieldDescriptor* field,
                        const Message& holder) {
  const auto* reflection = holder.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    const std::int64_t value = reflection->GetInt64(holder, field);
    const std::int64_t min = field->options().GetExtension(config::min);
    const std::int64_t max = field->options().GetExtension(config::max);
    if (value >= min && value <= max) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " is ", value, "; it must be ", min, " to ", max));
  }
  const std::string value = reflection->GetString(holder, field);
  const std::vector<std::string> choices = Choices(field);
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is \"", value, "\"; it must be ", absl::StrJoin(choices, ", ")));
}

absl::Status CheckFields(const Message& message, std::vector<const FieldDescriptor*> path) {
  const auto* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    path.push_back(field);
    absl::Status status =
        field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
            ? CheckFields(message.GetReflection()->GetMessage(message, field), path)
            : CheckField(FlagName(path), field, message);
    if (!status.ok()) return status;
    path.pop_back();
  }
  return absl::OkStatus();
}

absl::Status SetLeaf(const Leaf& leaf, Message* message) {
  for (std::size_t i = 0; i + 1 < leaf.path.size(); ++i) {
    message = message->GetReflection()->MutableMessage(message, leaf.path[i]);
  }
  const FieldDescriptor* field = leaf.path.back();
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_INT64) {
    const bool is_switched_on = IsSwitch(field) && leaf.text.empty();
    message->GetReflection()->SetString(message, field, is_switched_on ? "on" : leaf.text);
    return absl::OkStatus();
  }
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(leaf.text, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(leaf.flag, " is \"", leaf.text, "\"; it must be an integer"));
  }
  message->GetReflection()->SetInt64(message, field, value);
  return absl::OkStatus();
}

// Keeps the first error of a textproto file.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status ReadConfig(const std::string& path, config::ServerConfig* config) {
  constexpr std::size_t kMostBytes = 1 << 20;
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kMostBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config is \"", path, "\", which ", text.status().message()));
  }
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  if (parser.ParseFromString(*text, config)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ":", error.text()));
}

// Checks that the options of TLS go together.
absl::Status ValidateTls(const config::Tls& tls) {
  if (tls.certificate_file().empty() != tls.key_file().empty()) {
    return absl::InvalidArgumentError(
        "--tls.certificate-file and --tls.key-file go together: one of them is empty");
  }
  const std::string& which = tls.client_certificates();
  if (!tls.client_ca_file().empty() && tls.certificate_file().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls.client-ca-file is \"", tls.client_ca_file(),
                     "\"; it needs --tls.certificate-file, which is empty"));
  }
  if ((which == "optional" || which == "required") && tls.client_ca_file().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls.client-certificates is \"", which,
                     "\"; it needs --tls.client-ca-file, which is empty"));
  }
  if (!tls.crl_directory().empty() && tls.client_ca_file().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls.crl-directory is \"", tls.crl_directory(),
                     "\"; it needs --tls.client-ca-file, which is empty"));
  }
  return absl::OkStatus();
}

// An address that others can reach asks for TLS, or for --insecure.
absl::Status ValidateListener(const char* flag, const std::string& address,
                              const config::ServerConfig& config) {
  if (absl::Status status = CheckListenAddress(flag, address); !status.ok()) return status;
  if (!config.tls().certificate_file().empty() || config.insecure() == "on" ||
      IsLocalAddress(address)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " is \"", address,
      "\", where others can connect, and there is no TLS: give --tls.certificate-file and "
      "--tls.key-file, or --insecure, which sends everything in plain text"));
}

// Addresses as connections are known by: a proxy that is written otherwise would be nobody's.
absl::Status ValidateProxies(absl::string_view list) {
  for (const absl::string_view name : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    absl::string_view address = name;
    absl::ConsumeSuffix(&address, "/64");
    in_addr v4{};
    in6_addr v6{};
    const bool is_known =
        (inet_pton(AF_INET, std::string(name).c_str(), &v4) == 1 && NetworkText(v4) == name) ||
        (inet_pton(AF_INET6, std::string(address).c_str(), &v6) == 1 && NetworkText(v6) == name);
    if (is_known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--limits.proxy-protocol has \"", name,
                     "\"; it must be an IPv4 address, or a network of IPv6 as \"2001:db8::/64\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const config::ServerConfig& config) {
  if (absl::Status status = CheckFields(config, {}); !status.ok()) return status;
  if (absl::Status status = ValidateTls(config.tls()); !status.ok()) return status;
  if (absl::Status s = ValidateProxies(config.limits().proxy_protocol()); !s.ok()) return s;
  if (absl::Status s = ValidateListener("--listen", config.listen(), config); !s.ok()) return s;
  if (!config.observe().listen().empty()) {
    absl::Status status = ValidateListener("--observe.listen", config.observe().listen(), config);
    if (!status.ok()) return status;
  }
  if (config.operands().default_lease_ms() > config.operands().max_lease_ms()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--operands.default-lease-ms is ", config.operands().default_lease_ms(),
        "; it must not be over --operands.max-lease-ms, ", config.operands().max_lease_ms()));
  }
  const config::SharedMemory& shared = config.shared_memory();
  if (shared.default_lease_ms() > shared.max_lease_ms()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--shared-memory.default-lease-ms is ", shared.default_lease_ms(),
        "; it must not be over --shared-memory.max-lease-ms, ", shared.max_lease_ms()));
  }
  return absl::OkStatus();
}

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CLI::App app{
      "gemmd: general matrix multiplication as a service.\n"
      "Serves gemmd.v1 over gRPC until SIGTERM, then finishes what it admitted.",
      "gemmd"};
  app.footer(
      "Examples:\n"
      "  gemmd\n"
      "  gemmd --listen=0.0.0.0:50051 --insecure --cpu.threads=8\n"
      "  gemmd --config=gemmd.textproto     # listen: \"[::]:50051\" cpu { threads: 8 }\n"
      "  gemmd --config=gemmd.textproto --check\n"
      "\n"
      "Exit codes: 0 drained after SIGTERM or SIGINT; 1 could not start; 2 wrong usage;\n"
      "3 the drain was cut short by its timeout or by a second signal; 4 a device was lost;\n"
      "5 no memory was left. After 4 and 5, start gemmd again.");
  bool version = false;
  app.add_flag("--version", version, "print the version and end");
  bool check = false;
  app.add_flag("--check", check,
               "read all options and every file that they name, say what is wrong, and end");
  bool print_config = false;
  app.add_flag("--print-config", print_config, "print all options as a file for --config, and end");
  std::string config_file;
  app.add_option("--config", config_file, "textproto file of gemmd.config.ServerConfig")
      ->type_name("FILE");
  std::deque<Leaf> leaves;
  CollectLeaves(config::ServerConfig::descriptor(), {}, &leaves);
  for (Leaf& leaf : leaves) {
    leaf.option =
        app.add_option(leaf.flag, leaf.text, Help(leaf.path.back()))
            ->type_name(leaf.path.back()->cpp_type() == FieldDescriptor::CPPTYPE_INT64 ? "N"
                                                                                       : "TEXT")
            ->take_last();
    if (IsSwitch(leaf.path.back())) leaf.option->expected(0, 1);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (version) return absl::StrCat("gemmd ", kVersion, "\n");

  config::ServerConfig config;
  if (!config_file.empty()) {
    if (absl::Status status = ReadConfig(config_file, &config); !status.ok()) return status;
  }
  for (const Leaf& leaf : leaves) {
    if (leaf.option->count() == 0) continue;
    if (absl::Status status = SetLeaf(leaf, &config); !status.ok()) return status;
  }
  if (absl::Status status = Validate(config); !status.ok()) return status;
  if (print_config) return ConfigText(config);
  if (check) return ToCheck{std::move(config)};
  return config;
}

}  // namespace gemmd
