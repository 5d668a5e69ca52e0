#include "server/observe_http/http_server.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/http_client.h"

namespace gemmd {
namespace {

using testing::CertificateAuthority;
using testing::CertificateFiles;
using testing::HttpConnection;
using testing::HttpGet;
using testing::HttpResult;
using testing::HttpTls;

// Shows what the handler was told.
HttpAnswer Echo(const HttpRequest& request) {
  HttpAnswer answer;
  answer.body =
      absl::StrCat(request.path, " ", request.accept, " ", request.authorization.size(), " ",
                   request.certificate.common_name, " ", request.certificate.spiffe_id);
  answer.headers.emplace_back("X-Test", "yes");
  return answer;
}

class HttpServerTest : public ::testing::Test {
 protected:
  static HttpServerOptions Usual() {
    HttpServerOptions options;
    options.listen = "127.0.0.1:0";
    options.connections.all = 8;
    options.connections.per_peer = 4;
    options.connections.look_interval = 0;
    options.reading = {1'000'000'000, 1024};
    options.timeout_ms = 60000;
    return options;
  }

  void Start(const HttpServerOptions& options = Usual(), HttpServer::Handler handler = Echo) {
    auto server = HttpServer::Start(options, &clock_, std::move(handler));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = absl::StrCat("127.0.0.1:", server_->port());
  }

  const SteadyClock clock_{};
  std::unique_ptr<HttpServer> server_;
  std::string address_;
};

TEST_F(HttpServerTest, AsksForAPageAndSendsIt) {
  Start();
  const HttpResult result =
      HttpGet(address_, "/a/b?c=d", "Accept: text/plain\r\nAuthorization: x\r\n");
  EXPECT_EQ(result.code, 200);
  EXPECT_EQ(result.body, "/a/b text/plain 1  ");
  EXPECT_EQ(result.headers.at("x-test"), "yes");
  EXPECT_EQ(result.headers.at("cache-control"), "no-store");
  EXPECT_EQ(result.headers.at("x-content-type-options"), "nosniff");
}

TEST_F(HttpServerTest, AConnectionServesRequestsInTurn) {
  Start();
  HttpConnection connection(address_);
  const std::string get = "GET /x HTTP/1.1\r\nHost: g\r\n\r\n";
  ASSERT_TRUE(connection.Write(get + get));  // two at once, too
  EXPECT_EQ(connection.ReadAnswer().code, 200);
  EXPECT_EQ(connection.ReadAnswer().code, 200);
  ASSERT_TRUE(connection.Write("HEAD /x HTTP/1.1\r\nHost: g\r\n\r\n"));
  const HttpResult head = connection.ReadAnswer(false);
  EXPECT_EQ(head.code, 200);
  EXPECT_EQ(head.headers.at("content-length"), "7");
  ASSERT_TRUE(connection.Write("GET /y HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(connection.ReadAnswer().body, "/y  0  ") << "HEAD had no body";
  EXPECT_EQ(connection.ReadToEnd(), "") << "it was to close";
  EXPECT_EQ(server_->counts().requests, 4u);
}

TEST_F(HttpServerTest, ServesUrlsToo) {
  Start();
  HttpConnection connection(address_);
  ASSERT_TRUE(connection.Write("GET http://g/x?y HTTP/1.1\r\nHost: g\r\n\r\n"));
  EXPECT_EQ(connection.ReadAnswer().body, "/x  0  ");
  ASSERT_TRUE(connection.Write("GET /x HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(connection.ReadAnswer().code, 200);
}

TEST_F(HttpServerTest, OtherMethodsAreTold) {
  Start();
  HttpConnection connection(address_);
  connection.Write("DELETE /x HTTP/1.1\r\nHost: g\r\n\r\n");
  const HttpResult result = connection.ReadAnswer();
  EXPECT_EQ(result.code, 405);
  EXPECT_EQ(result.headers.at("allow"), "GET, HEAD");
}

TEST_F(HttpServerTest, WhatIsNoRequestIsAnsweredAndEndsTheConnection) {
  Start();
  const std::string long_value(HttpServer::kHeaderBytes, 'a');
  const struct {
    std::string bytes;
    int code;
  } cases[] = {
      {"GET /x HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\n\r\nabc", 400},
      {"GET /x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
       400},
      {"\x16\x03\x01 this is TLS\r\n\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\nHost : g\r\n\r\n", 400},
      {"GET ?/x HTTP/1.1\r\nHost: g\r\n\r\n", 400},
      {"GET ftp://g/x HTTP/1.1\r\nHost: g\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\nHost: g\r\nHost: evil\r\n\r\n", 400},
      {absl::StrCat("GET /x HTTP/1.1\r\nX: ", long_value, "\r\n\r\n"), 431},
      {absl::StrCat("GET /", long_value, " HTTP/1.1\r\n\r\n"), 431},
      {absl::StrCat("GET /x HTTP/1.1\r\nX: ", long_value, long_value, long_value), 431},
  };
  for (const auto& each : cases) {
    HttpConnection connection(address_);
    connection.Write(each.bytes);
    EXPECT_EQ(connection.ReadAnswer().code, each.code) << each.bytes.substr(0, 60);
    connection.ReadToEnd();  // which ends
  }
  EXPECT_EQ(server_->counts().requests, 0u);
  EXPECT_EQ(server_->counts().rejected, 12u);
}

// Nothing is known of when it closes, but that it does.
TEST_F(HttpServerTest, ASlowClientIsClosed) {
  HttpServerOptions options = Usual();
  options.timeout_ms = 100;
  Start(options);
  HttpConnection silent(address_);
  HttpConnection slow(address_);
  slow.Write("GET /x HTTP/1.1\r\nHos");
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(slow.ReadToEnd(), "");
  while (server_->counts().timeouts < 2) std::this_thread::yield();
}

TEST_F(HttpServerTest, OneAddressHasHalfOfTheConnections) {
  Start();
  std::vector<std::unique_ptr<HttpConnection>> held;
  for (int i = 0; i < 4; ++i) held.push_back(std::make_unique<HttpConnection>(address_));
  for (const auto& each : held) {  // each is taken before the next is tried
    each->Write("GET /x HTTP/1.1\r\nHost: g\r\n\r\n");
    EXPECT_EQ(each->ReadAnswer().code, 200);
  }
  EXPECT_EQ(HttpGet(address_, "/x").code, 0);
  EXPECT_EQ(HttpGet(address_, "/x", "", nullptr, "127.0.0.2").code, 200);
}

TEST_F(HttpServerTest, ItsLimitsChangeWhileItServes) {
  HttpServerOptions options = Usual();
  Start(options);
  HttpConnection held(address_);
  const std::string get = "GET /x HTTP/1.1\r\nHost: g\r\n\r\n";
  held.Write(get);
  EXPECT_EQ(held.ReadAnswer().code, 200);
  options.connections.per_peer = 1;
  server_->SetLimits(options.connections, options.reading);
  EXPECT_EQ(HttpGet(address_, "/x").code, 0);
  held.Write(get);
  EXPECT_EQ(held.ReadAnswer().code, 200);
}

TEST_F(HttpServerTest, ConnectionsThatAreOpenEndWithIt) {
  Start();
  HttpConnection connection(address_);
  connection.Write("GET /x HTTP/1.1\r\nHost: g\r\n\r\n");
  EXPECT_EQ(connection.ReadAnswer().code, 200);
  server_.reset();
  EXPECT_EQ(connection.ReadToEnd(), "");
}

TEST_F(HttpServerTest, AnAddressThatIsTakenIsNamed) {
  Start();
  HttpServerOptions options = Usual();
  options.listen = address_;
  const absl::Status status = HttpServer::Start(options, &clock_, Echo).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), address_)) << status;
}

class HttpsServerTest : public HttpServerTest {
 protected:
  HttpServerOptions WithTls(ClientCertificates which) const {
    HttpServerOptions options = Usual();
    const CertificateFiles files =
        authority_.Issue("server", {"/CN=server", "DNS:gemmd.test", "", ""});
    options.tls.certificate_file = files.certificate;
    options.tls.key_file = files.key;
    options.tls.client_certificates = which;
    if (which != ClientCertificates::kNone) {
      options.tls.client_ca_file = authority_.certificate_file();
    }
    return options;
  }

  HttpResult Get(const CertificateFiles& shown = {}) const {
    const HttpTls tls{authority_.certificate_file(), shown.certificate, shown.key};
    return HttpGet(address_, "/x", "", &tls);
  }

  const CertificateAuthority authority_{"authority"};
};

TEST_F(HttpsServerTest, SpeaksNothingButTls) {
  Start(WithTls(ClientCertificates::kNone));
  EXPECT_EQ(Get().code, 200);
  EXPECT_EQ(HttpGet(address_, "/x").code, 0);
}

TEST_F(HttpsServerTest, TellsWhoseCertificateItWas) {
  Start(WithTls(ClientCertificates::kOptional));
  EXPECT_EQ(Get().body, "/x  0  ");
  EXPECT_EQ(Get(authority_.Issue("client", {"/CN=ops", "URI:spiffe://a/b,DNS:c", "", ""})).body,
            "/x  0 ops spiffe://a/b");
  EXPECT_EQ(
      Get(authority_.Issue("two", {"/CN=ops", "URI:spiffe://a/b,URI:spiffe://a/c", "", ""})).body,
      "/x  0 ops ")
      << "an identity has one URI";
}

TEST_F(HttpsServerTest, TakesGoodCertificatesOnly) {
  HttpServerOptions options = WithTls(ClientCertificates::kRequired);
  const CertificateFiles revoked = authority_.Issue("revoked", {"/CN=revoked", "", "", ""});
  authority_.Revoke(revoked);
  options.tls.crl_directory = authority_.WriteRevocations();
  Start(options);
  const CertificateAuthority stranger("stranger");
  EXPECT_EQ(Get().code, 0);
  EXPECT_EQ(Get(authority_.Issue("good", {"/CN=good", "", "", ""})).code, 200);
  EXPECT_EQ(Get(revoked).code, 0);
  EXPECT_EQ(Get(stranger.Issue("strange", {"/CN=good", "", "", ""})).code, 0);
  EXPECT_EQ(
      Get(authority_.Issue("old", {"/CN=old", "", "20200101000000Z", "20200102000000Z"})).code, 0);
}

TEST_F(HttpsServerTest, FilesThatAreWrongAreNamed) {
  HttpServerOptions options = WithTls(ClientCertificates::kNone);
  options.tls.key_file = "/no/such/file";
  const absl::Status status = HttpServer::Start(options, &clock_, Echo).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "--tls.key-file")) << status;
}

}  // namespace
}  // namespace gemmd
