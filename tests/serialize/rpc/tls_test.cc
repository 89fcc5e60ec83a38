// TLS, certificates of clients, and tokens.

#include "tensorcask/serialize/rpc/tls.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

#if defined(__SANITIZE_ADDRESS__)
// gRPC looks names up with this library, which leaves 10 bytes for each "localhost".
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares"; }
#endif

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

// Made for this test by openssl req -x509, for localhost, until 2126. Each is its own authority.
constexpr char kServerCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBtTCCAVugAwIBAgIUffS3jGs8uSoEp9Aw2hxnXGBWJG0wCgYIKoZIzj0EAwIw
ITEfMB0GA1UEAwwWdGVuc29yY2FzayB0ZXN0IHNlcnZlcjAgFw0yNjExMjgxNDI2
MzRaGA8yMTI2MTEwNDE0MjYzNFowITEfMB0GA1UEAwwWdGVuc29yY2FzayB0ZXN0
IHNlcnZlcjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABG3bFso0JHRasEmhIusM
o8CVdOtz4zAhdTlX2ngAC6m9D5djhzF0kMv30MWSj3iWxZItpNra/WqLQBVf8bV2
9K+jbzBtMB0GA1UdDgQWBBQ0XdH8GNZSCiEhKnPRTo3Ec4HRJTAfBgNVHSMEGDAW
gBQ0XdH8GNZSCiEhKnPRTo3Ec4HRJTAPBgNVHRMBAf8EBTADAQH/MBoGA1UdEQQT
MBGCCWxvY2FsaG9zdIcEfwAAATAKBggqhkjOPQQDAgNIADBFAiEAwWrHqvqrT3cp
Fry0hv3jDCPrNXtk+VZXEpw639BVkcECICLYB1rxAmho+TmAB18WJDv2arz4vyOa
wgQP/cSRz6s+
-----END CERTIFICATE-----
)";
constexpr char kServerKey[] = R"(-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjwsliqimOwuqMsye
PlANZGAUGoKmBW0N9dMQVn6P1MyhRANCAARt2xbKNCR0WrBJoSLrDKPAlXTrc+Mw
IXU5V9p4AAupvQ+XY4cxdJDL99DFko94lsWSLaTa2v1qi0AVX/G1dvSv
-----END PRIVATE KEY-----
)";
constexpr char kClientCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBtDCCAVugAwIBAgIUO2ohl5xMOd3hyvgFCnXI0f0rRKswCgYIKoZIzj0EAwIw
ITEfMB0GA1UEAwwWdGVuc29yY2FzayB0ZXN0IGNsaWVudDAgFw0yNjExMjgxNDI2
MzRaGA8yMTI2MTEwNDE0MjYzNFowITEfMB0GA1UEAwwWdGVuc29yY2FzayB0ZXN0
IGNsaWVudDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPTj75xhCYP0fMM8fk++
Ean92XDveLMWldHnz4bWCMZlAu2qfwPxfO9Qt4K4WRIxjVY7fPhN1/Lb81FlcoTW
K6ujbzBtMB0GA1UdDgQWBBQGxYsbDQLE1wXzCMgzN1GtlDdZjTAfBgNVHSMEGDAW
gBQGxYsbDQLE1wXzCMgzN1GtlDdZjTAPBgNVHRMBAf8EBTADAQH/MBoGA1UdEQQT
MBGCCWxvY2FsaG9zdIcEfwAAATAKBggqhkjOPQQDAgNHADBEAiB2LqltsUoJozq5
OkpJfHAKsr2lW3ropO2aCSuQlhE6awIgPgQJ/kYt7Xn1nyJvOmMv3zxCisCQWx2z
IdhHiyjEmdA=
-----END CERTIFICATE-----
)";
constexpr char kClientKey[] = R"(-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgOXEWTWjOwG+TngWn
qxb16MjOpnM+38JJO9Uzp6di6rShRANCAAT04++cYQmD9HzDPH5PvhGp/dlw73iz
FpXR58+G1gjGZQLtqn8D8XzvULeCuFkSMY1WO3z4Tdfy2/NRZXKE1iur
-----END PRIVATE KEY-----
)";

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    EXPECT_OK(live_.Publish(1, {{"w", Tensor::FromValues<float>({1, 2, 3})}}));
    own_.certificate_chain = kServerCertificate;
    own_.private_key = kServerKey;
    client_.authorities = kServerCertificate;
  }

  // What a client gets that reads a tensor.
  absl::Status Read() {
    TensorServerOptions options;
    options.credentials = MakeTlsCredentials(own_);
    const auto server = TensorServer::Start(&live_, options);
    if (!server.ok()) return server.status();
    RemoteOptions remote;
    remote.credentials = MakeTlsCredentials(client_);
    remote.pull.max_attempts = 2;
    remote.pull.first_delay = absl::Milliseconds(1);
    const auto archive = RemoteArchive::Open(absl::StrCat("grpcs://localhost:", (*server)->port()), remote);
    if (!archive.ok()) return archive.status();
    return (*archive)->Read("w").status();
  }

  LiveTensors live_;
  TlsServerOptions own_;
  TlsClientOptions client_;
};

TEST_F(TlsTest, IsSpoken) { EXPECT_OK(Read()); }

TEST_F(TlsTest, RefusesAServerThatNoAuthorityKnows) {
  client_.authorities = kClientCertificate;
  EXPECT_THAT(Read(), StatusIs(Code::kUnavailable));
}

TEST_F(TlsTest, MayWantACertificateOfTheClient) {
  own_.client_authorities = kClientCertificate;
  EXPECT_THAT(Read(), StatusIs(Code::kUnavailable));
  client_.certificate_chain = kClientCertificate;
  client_.private_key = kClientKey;
  EXPECT_OK(Read());
}

TEST_F(TlsTest, MayWantAToken) {
  own_.token = "5c9a1f5be6a0";
  EXPECT_THAT(Read(), StatusIs(Code::kUnauthenticated, HasSubstr("the server wants a token")));
  client_.token = "5c9a1f5be6a1";
  EXPECT_THAT(Read(), StatusIs(Code::kPermissionDenied, HasSubstr("the token is wrong")));
  client_.token = own_.token;
  EXPECT_OK(Read());
}

TEST_F(TlsTest, IsNotSpokenByOtherClients) {
  TensorServerOptions options;
  options.credentials = MakeTlsCredentials(own_);
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&live_, options));
  RemoteOptions remote;
  remote.pull.max_attempts = 1;
  EXPECT_THAT(RemoteArchive::Open(absl::StrCat("grpc://localhost:", server->port()), remote),
              StatusIs(Code::kUnavailable));
}

}  // namespace
}  // namespace tensorcask
