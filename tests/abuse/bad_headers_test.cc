// Headers that no client of gRPC's sends. CVE-2023-1428: a field that gRPC cannot parse, and fields
// after it that take the headers over their limit of 8 KiB, aborted the server.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd {
namespace {

using testing::FieldForm;
using testing::RawField;

constexpr std::size_t kFrameBytes = 16384;  // the most that HTTP/2 allows without asking

class BadHeadersTest : public testing::AbuseFixture {
 protected:
  explicit BadHeadersTest(std::vector<std::string> flags = {}) : AbuseFixture(std::move(flags)) {}
  std::string Request(const std::string& scheme) const {
    return RawField(":method", "POST") + RawField(":scheme", scheme) +
           RawField(":path", "/grpc.health.v1.Health/Check") +
           RawField(":authority", server_.address()) + RawField("content-type", "application/grpc");
  }

  // Returns options with an address that no other connection of the test has, because for a while
  // the server takes none from an address whose connection it had to close.
  static testing::RawConnection::Options FromElsewhere() {
    static int number = 0;
    ++number;
    testing::RawConnection::Options options;
    options.source =
        "127.0." + std::to_string(3 + number / 200) + "." + std::to_string(1 + number % 200);
    return options;
  }

  // Expects that the call was not served, whether it was answered or not.
  void ExpectNotServed(const std::string& block, std::size_t frame_bytes) const {
    const std::string answer = testing::RawConnection(server_.address(), FromElsewhere())
                                   .SendLastHeaders(block, frame_bytes);
    EXPECT_NE(testing::RawHeader(answer, "grpc-status"), "0");
  }
};

// Header fields of more than 8 KiB.
std::vector<std::string> LongFields(FieldForm form) {
  std::string many;
  for (int i = 0; i < 100; ++i) many += RawField("x-" + std::to_string(i), std::string(100, 'x'));
  return {RawField("x", std::string(9000, 'x'), form), many,
          RawField("x", std::string(2 * kFrameBytes, 'x'), form)};
}

TEST_F(BadHeadersTest, FieldsThatCannotBeParsedEndNothing) {
  const std::string trailers = RawField("te", "trailers");
  for (const FieldForm form : {FieldForm::kPlain, FieldForm::kIndexed, FieldForm::kNeverIndexed}) {
    const std::vector<std::string> bad = {
        Request("http") + RawField("te", "x", form),
        Request("http") + trailers + RawField("te", "x", form),
        Request("http") + RawField("te", "", form),
        Request("x") + trailers,
        Request("http") + trailers + RawField(":scheme", "x", form),
        Request("http") + trailers + RawField("grpclb_client_stats", "x", form),
        Request("http") + trailers + RawField("grpc-timeout", "x", form),
        Request("http") + trailers + RawField("grpc-encoding", "x", form),
        Request("http") + trailers + RawField("content-type", "x", form),
    };
    for (const std::string& block : bad) {
      for (const std::string& fields : LongFields(form)) {
        ExpectNotServed(block + fields, kFrameBytes);
        ExpectNotServed(block + fields, 1000);
      }
    }
  }
}

TEST_F(BadHeadersTest, NorDoThoseThatComeLast) {
  for (const std::string& fields : LongFields(FieldForm::kPlain)) {
    ExpectNotServed(Request("http") + fields + RawField("te", "x"), kFrameBytes);
    ExpectNotServed(Request("x") + fields + RawField(":scheme", "y"), kFrameBytes);
  }
}

// CVE-2023-33953: a byte each names a field of 4000, which is remembered once.
TEST_F(BadHeadersTest, FieldsThatAreRepeatedByNumberDoNotFillMemory) {
  const std::string field = RawField("x", std::string(4000, 'x'), FieldForm::kIndexed);
  constexpr char kNewest = static_cast<char>(0x80 | 62);  // the table's first that is not HPACK's
  for (int i = 0; i < 4; ++i) {
    ExpectNotServed(Request("http") + field + std::string(10 * kFrameBytes, kNewest), kFrameBytes);
  }
}

// Before a client has acknowledged settings, gRPC takes headers of 16 MiB for each call.
TEST_F(BadHeadersTest, CallsWithMegabytesOfFieldsEndTheirConnection) {
  std::string fields;
  for (int i = 0; i < 1000; ++i)
    fields += RawField("x-" + std::to_string(i), std::string(4000, 'x'));
  testing::RawConnection connection(server_.address(), FromElsewhere());
  const std::string call = Request("http") + RawField("te", "trailers");
  int begun = 0;
  while (begun < 100 && connection.BeginWith(call + fields)) ++begun;
  EXPECT_LT(begun, 100);
}

class HalfHeadersTest : public BadHeadersTest {
 protected:
  HalfHeadersTest() : BadHeadersTest({"--limits.stall-timeout-ms=1000"}) {}
};

// No call has begun, and none does.
TEST_F(HalfHeadersTest, EndTheirConnection) {
  testing::RawConnection connection(server_.address(), FromElsewhere());
  std::string fields = RawField(":method", "POST");
  for (int i = 0; i < 1000; ++i)
    fields += RawField("x-" + std::to_string(i), std::string(4000, 'x'));
  EXPECT_TRUE(connection.BeginWith(fields, false));
  std::string answer;
  while (connection.Receive(&answer)) {
  }
}

// gRPC copies what it has of a field with each frame, so that time grows as the square: 16 MiB
// take 40 s.
TEST_F(BadHeadersTest, AVeryLongFieldDoesNotFillMemory) {
  ExpectNotServed(Request("http") + RawField("x", std::string(1 << 20, 'x')), kFrameBytes);
}

}  // namespace
}  // namespace gemmd
