#include "server/options/reload.h"

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "server/options/config_text.h"
#include "server/options/options.h"

namespace gemmd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Gives each option another value than its default.
void ChangeAll(Message* message) {
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ChangeAll(reflection->MutableMessage(message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      reflection->SetInt64(message, field, field->default_value_int64() + 1);
    } else {
      reflection->SetString(message, field, field->default_value_string() + "x");
    }
  }
}

// The flags of all options that are marked, or of all that are not.
std::vector<std::string> FlagsOf(const google::protobuf::Descriptor* type, bool reloads,
                                 std::vector<const FieldDescriptor*> path = {}) {
  std::vector<std::string> flags;
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    path.push_back(field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const std::vector<std::string> more = FlagsOf(field->message_type(), reloads, path);
      flags.insert(flags.end(), more.begin(), more.end());
    } else if (field->options().GetExtension(config::reloads) == reloads) {
      flags.push_back(FlagName(path));
    }
    path.pop_back();
  }
  return flags;
}

const google::protobuf::Descriptor* All() { return config::ServerConfig::descriptor(); }

TEST(Reload, TakesTheOptionsThatAreMarkedAndNoOther) {
  config::ServerConfig read;
  ChangeAll(&read);
  config::ServerConfig config;
  TakeReloading(read, &config);
  EXPECT_EQ(DifferingFlags(config::ServerConfig(), config), FlagsOf(All(), true));
  EXPECT_EQ(DifferingFlags(config, read), FlagsOf(All(), false));
}

TEST(Reload, AnOptionThatIsNoLongerNamedHasItsDefaultAgain) {
  config::ServerConfig config;
  ChangeAll(&config);
  const config::ServerConfig before = config;
  TakeReloading(config::ServerConfig(), &config);
  EXPECT_EQ(DifferingFlags(before, config), FlagsOf(All(), true));
  EXPECT_EQ(DifferingFlags(config::ServerConfig(), config), FlagsOf(All(), false));
}

TEST(Reload, HelpSaysWhichOptionsDo) {
  const char* const arguments[] = {"gemmd", "--help"};
  const absl::StatusOr<CommandLine> help = ParseCommandLine(2, arguments);
  ASSERT_TRUE(help.ok()) << help.status();
  std::vector<std::string> marked;
  std::string flag;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(std::get<std::string>(*help), '\n'))) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (!words.empty() && absl::StartsWith(words.front(), "--")) flag = words.front();
    if (absl::StrContains(line, "SIGHUP reloads it")) marked.push_back(flag);
  }
  EXPECT_EQ(marked, FlagsOf(All(), true));
}

}  // namespace
}  // namespace gemmd
