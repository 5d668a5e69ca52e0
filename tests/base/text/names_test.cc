// Names of operands, and patterns of names.
#include <string>

#include "base/text/glob.h"
#include "base/text/operand_name.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(OperandNameTest, TakesWhatTensorsAreCalled) {
  for (const char* name : {"w", "model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight",
                           "onnx::MatMul_123", "/layers.0/MatMul", "experts[3]", "a b",
                           "gr\xc3\xb6\xc3\x9f", "a1b2c3d4", "a1b2c3d4-x", "00000000-"}) {
    EXPECT_TRUE(CheckOperandName("name", name).ok()) << name;
  }
  EXPECT_TRUE(CheckOperandName("name", std::string(255, 'n')).ok());
  EXPECT_TRUE(CheckOperandName("name", std::string(63, 'a')).ok());
}

TEST(OperandNameTest, RefusesWhatWouldBeReadAsSomethingElse) {
  EXPECT_EQ(CheckOperandName("--name", "").message(), "--name has 0 bytes; a name has 1 to 255");
  EXPECT_EQ(CheckOperandName("--name", std::string(256, 'n')).message(),
            "--name has 256 bytes; a name has 1 to 255");
  EXPECT_EQ(CheckOperandName("new_name", "a1b2c3d4-7").message(),
            "new_name is \"a1b2c3d4-7\"; a name has not the form of a handle");
  EXPECT_EQ(CheckOperandName("new_name", std::string(64, 'F')).code(),
            absl::StatusCode::kInvalidArgument);
  for (const char* name : {"a\nb", "\x7f", "\xff", "\xc3", "\xed\xa0\x80", "\xc0\xaf"}) {
    EXPECT_FALSE(CheckOperandName("name", name).ok());
  }
  EXPECT_FALSE(CheckOperandName("name", absl::string_view("a\0b", 3)).ok());
}

TEST(OperandNameTest, KnowsTheFormsOfHandlesAndDigests) {
  EXPECT_TRUE(HasHandleForm("0000abcd-1"));
  EXPECT_TRUE(HasHandleForm("FFFFffff-18446744073709551615"));
  for (const char* other : {"", "-1", "0000abcd1", "0000abcd-", "0000abcd-1a", "000abcd-1"}) {
    EXPECT_FALSE(HasHandleForm(other)) << other;
  }
  EXPECT_TRUE(HasDigestForm(std::string(64, '0')));
  EXPECT_FALSE(HasDigestForm(std::string(65, '0')));
  EXPECT_FALSE(HasDigestForm(std::string(64, 'g')));
}

TEST(GlobTest, StarsAndQuestionMarksAreAllThatIsSpecial) {
  const struct {
    const char* pattern;
    const char* text;
    bool matches;
  } cases[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "anything", true},
      {"a", "a", true},
      {"a", "ab", false},
      {"?", "", false},
      {"?", "a", true},
      {"a?c", "abc", true},
      {"a*c", "ac", true},
      {"a*c", "abcbc", true},
      {"a*c", "abcb", false},
      {"*.w", "layers.0.w", true},
      {"l*.0.*", "layers.0.w", true},
      {"l*.1.*", "layers.0.w", false},
      {"w[*]", "w[12]", true},
      {"w[1]", "w1", false},
      {"**a", "bca", true},
      {"a.b", "axb", false},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(MatchesGlob(each.pattern, each.text), each.matches)
        << each.pattern << " " << each.text;
  }
  EXPECT_TRUE(IsGlob("a*"));
  EXPECT_TRUE(IsGlob("a?"));
  EXPECT_FALSE(IsGlob("a[0]"));
}

// Trying every way would take for ever.
TEST(GlobTest, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesGlob(pattern + "b", std::string(5000, 'a')));
}

}  // namespace
}  // namespace gemmd
