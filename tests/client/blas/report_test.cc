#include "client/blas/report.h"

#include <string>

#include "gtest/gtest.h"

namespace gemmd::blas {
namespace {

CallRecord There(double side, double seconds, double seconds_here) {
  CallRecord record;
  record.routine = "dgemm";
  record.m = record.n = record.k = side;
  record.why = Why::kServer;
  record.products = 1;
  record.bytes = 3 << 20;
  record.seconds = seconds;
  record.seconds_here = seconds_here;
  return record;
}

TEST(ReportTest, ARowForEachRoutineSizeAndPlace) {
  Report report;
  EXPECT_EQ("", report.Text());
  report.Add(There(1024, 0.5, 2));
  report.Add(There(600, 0.5, 2));  // up to 1024 cubed too
  report.Add(There(1025, 1, 0));   // nothing predicted
  CallRecord here;
  here.routine = "dsyrk";
  here.m = here.n = here.k = 3;
  here.seconds = 1e-3;
  report.Add(here);
  EXPECT_EQ(
      "gemmd_blas: calls by routine, by size (up to its cube), and by where they were computed\n"
      "routine    size  where                          calls  products        MiB    seconds  "
      "speed-up\n"
      "dgemm      1024  server                             2         2        6.0     1.0000  "
      "4.00, of 4.0000 s here\n"
      "dgemm      2048  server                             1         1        3.0     1.0000\n"
      "dsyrk         4  here: small                        1         0        0.0     0.0010\n"
      "gemmd_blas: the server computed 3 products\n",
      report.Text());
}

TEST(ReportTest, CallsThatFindNoRoomAreCounted) {
  Report report;
  std::vector<std::string> names(1030, "r");
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] += std::to_string(i);
    CallRecord record;
    record.routine = names[i].c_str();
    report.Add(record);
  }
  EXPECT_NE(std::string::npos,
            report.Text().find("gemmd_blas: 6 further calls found no room in this table\n"));
}

TEST(ReportTest, LineOfACall) {
  EXPECT_EQ("dgemm 512x512x512 server: 1 product, 3.0 MiB, 0.500000 s", LineOf(There(512, 0.5, 2)));
  CallRecord here;
  here.routine = "zherk";
  here.m = here.n = 20;
  here.k = 7;
  here.why = Why::kPaused;
  here.seconds = 0.25;
  EXPECT_EQ("zherk 20x20x7 here: server failed lately, 0.250000 s", LineOf(here));
}

}  // namespace
}  // namespace gemmd::blas
