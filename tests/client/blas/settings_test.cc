#include "client/blas/settings.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace gemmd::blas {
namespace {

// Sets variables, and clears them afterwards.
class SettingsTest : public ::testing::Test {
 protected:
  ~SettingsTest() override {
    for (const char* name : {"GEMMD_SERVER", "GEMMD_LIBRARY", "GEMMD_BLAS_MODE", "GEMMD_BLAS_LOG",
                             "GEMMD_BLAS_TLS", "GEMMD_BLAS_TOKEN_FILE", "GEMMD_BLAS_KERNEL",
                             "GEMMD_BLAS_LIMIT_MS", "GEMMD_BLAS_REPORT"}) {
      unsetenv(name);
    }
  }

  // The settings, and what was said of them.
  static std::pair<Settings, std::string> Read() {
    ::testing::internal::CaptureStderr();
    const Settings settings = ReadSettings();
    return {settings, ::testing::internal::GetCapturedStderr()};
  }
};

TEST_F(SettingsTest, Defaults) {
  const auto [settings, said] = Read();
  EXPECT_EQ("", said);
  EXPECT_EQ(Mode::kAuto, settings.mode);
  EXPECT_EQ(nullptr, settings.server);
  EXPECT_EQ(0, settings.limit_ms);
  EXPECT_FALSE(settings.report);
  EXPECT_EQ(nullptr, settings.log);
}

TEST_F(SettingsTest, EachIsRead) {
  setenv("GEMMD_SERVER", "host:1", 1);
  setenv("GEMMD_LIBRARY", "/x/libgemmd.so.0", 1);
  setenv("GEMMD_BLAS_KERNEL", "sm90/f32_f16x3", 1);
  setenv("GEMMD_BLAS_LIMIT_MS", "250", 1);
  setenv("GEMMD_BLAS_REPORT", "1", 1);
  setenv("GEMMD_BLAS_TLS", "1", 1);
  setenv("GEMMD_BLAS_TOKEN_FILE", "/x/token", 1);
  setenv("GEMMD_BLAS_LOG", "-", 1);
  for (const auto& [word, mode] :
       {std::pair("always", Mode::kAlways), std::pair("never", Mode::kNever),
        std::pair("auto", Mode::kAuto), std::pair("", Mode::kAuto)}) {
    setenv("GEMMD_BLAS_MODE", word, 1);
    const auto [settings, said] = Read();
    EXPECT_EQ("", said);
    EXPECT_EQ(mode, settings.mode) << word;
    EXPECT_STREQ("host:1", settings.server);
    EXPECT_STREQ("/x/libgemmd.so.0", settings.library);
    EXPECT_STREQ("sm90/f32_f16x3", settings.kernel);
    EXPECT_EQ(250, settings.limit_ms);
    EXPECT_TRUE(settings.report);
    EXPECT_TRUE(settings.tls);
    EXPECT_STREQ("/x/token", settings.token_file);
    EXPECT_STREQ("-", settings.log);
  }
}

TEST_F(SettingsTest, WhatIsNoneIsToldOfOnceAndOffloadsNothing) {
  for (const auto& [name, value, rule] :
       {std::tuple("GEMMD_BLAS_MODE", "sometimes", "auto, always or never"),
        std::tuple("GEMMD_BLAS_MODE", "Always", "auto, always or never"),
        std::tuple("GEMMD_BLAS_LIMIT_MS", "0", "1 to 86400000"),
        std::tuple("GEMMD_BLAS_LIMIT_MS", "12s", "1 to 86400000"),
        std::tuple("GEMMD_BLAS_LIMIT_MS", "99999999999999999999", "1 to 86400000"),
        std::tuple("GEMMD_BLAS_REPORT", "yes", "0 or 1"),
        std::tuple("GEMMD_BLAS_TLS", "on", "0 or 1")}) {
    setenv(name, value, 1);
    const auto [settings, said] = Read();
    EXPECT_EQ(std::string("gemmd_blas: ") + name + " is \"" + value + "\": it must be " + rule +
                  "; all is computed here\n",
              said);
    EXPECT_EQ(Mode::kNever, settings.mode);
    unsetenv(name);
  }
}

TEST_F(SettingsTest, ALogThatCannotBeWrittenStopsNothing) {
  setenv("GEMMD_BLAS_LOG", "/nowhere/log", 1);
  const auto [settings, said] = Read();
  EXPECT_EQ("gemmd_blas: GEMMD_BLAS_LOG is \"/nowhere/log\": No such file or directory\n", said);
  EXPECT_EQ(Mode::kAuto, settings.mode);
  EXPECT_EQ(nullptr, settings.log);
}

TEST_F(SettingsTest, LongMessagesAreCut) {
  ::testing::internal::CaptureStderr();
  Say("%s", std::string(5000, 'x').c_str());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(1023U, said.size());
  EXPECT_EQ("xx\n", said.substr(said.size() - 3));
}

}  // namespace
}  // namespace gemmd::blas
