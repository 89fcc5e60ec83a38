// Clients that speak no HTTP/2, half of it, or what gRPC's own clients never send: the server goes on serving others,
// and keeps nothing. A program of its own, for it changes what a signal does.

#include <arpa/inet.h>
#include <dirent.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/push_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;
namespace v1 = rpc::v1;

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

int CountDescriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// One frame of HTTP/2.
std::string Frame(char type, char flags, char stream, absl::string_view body) {
  std::string frame = {static_cast<char>(body.size() >> 16),
                       static_cast<char>(body.size() >> 8),
                       static_cast<char>(body.size()),
                       type,
                       flags,
                       0,
                       0,
                       0,
                       stream};
  return absl::StrCat(frame, body);
}

// A field of a header that is in no table.
std::string Field(absl::string_view name, absl::string_view value) {
  return absl::StrCat(std::string(1, '\0'), std::string(1, static_cast<char>(name.size())), name,
                      std::string(1, static_cast<char>(value.size())), value);
}

class HostileClientTest : public ::testing::Test {
 protected:
  HostileClientTest() {
    w_ = *Tensor::Create(DType::kInt32, TensorShape({600, 1000}));
    std::iota(w_.mutable_data<int32_t>(), w_.mutable_data<int32_t>() + w_.num_elements(), 0);
    EXPECT_OK(live_.Publish(1, {{"turned", *TensorView(w_).Transpose(0, 1)}, {"w", w_}}));
    TensorServerOptions options;
    options.accept_pushes = true;
    options.max_memory_bytes = 3 << 20;  // that of one stream of `turned`
    server_ = *TensorServer::Start(&live_, options);
    stub_ = v1::TensorExchange::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }

  ScopedDescriptor Connect() const {
    ScopedDescriptor client(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return client;
  }
  static void Send(const ScopedDescriptor& client, absl::string_view bytes) {
    send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // An honest client gets all elements.
  void ExpectServed() {
    ASSERT_OK_AND_ASSIGN(const auto archive, RemoteArchive::Open(absl::StrCat("grpc://", server_->address()), {}));
    ASSERT_OK_AND_ASSIGN(const Tensor w, archive->Read("w"));
    EXPECT_EQ(TensorView(w).bytes(), TensorView(w_).bytes());
    ASSERT_OK_AND_ASSIGN(const Tensor turned, archive->Read("turned"));
    EXPECT_EQ(TensorView(turned).bytes(), TensorView(*TensorView(w_).Transpose(0, 1)->ToTensor()).bytes());
  }
  void ExpectNoStreams() {
    for (int i = 0; i < 2000 && server_->stats().num_streams != 0; ++i) absl::SleepFor(absl::Milliseconds(10));
    EXPECT_EQ(server_->stats().num_streams, 0);
  }

  Tensor w_;
  LiveTensors live_;
  std::unique_ptr<TensorServer> server_;
  std::unique_ptr<v1::TensorExchange::Stub> stub_;
};

TEST_F(HostileClientTest, ThatNeverEndsItsHeaderHoldsUpNobody) {
  std::vector<ScopedDescriptor> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(Connect());
    Send(clients.back(), kPreface.substr(0, static_cast<size_t>(i) % kPreface.size()));
  }
  for (const char byte : kPreface.substr(0, 10)) Send(clients[0], absl::string_view(&byte, 1));
  ExpectServed();
}

TEST_F(HostileClientTest, ThatSpeaksNoHttp2IsClosed) {
  for (const absl::string_view hello :
       {absl::string_view("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        absl::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9),
        absl::string_view(
            "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 24)}) {
    const ScopedDescriptor client = Connect();
    Send(client, hello);
    Send(client, std::string(1000, 'x'));
    char bytes[4096];
    while (recv(client.get(), bytes, sizeof(bytes), 0) > 0) continue;  // ends, for the server closes
  }
  ExpectServed();
}

// Frames that claim too much or too little, texts that are not UTF-8, and messages whose size is a lie.
TEST_F(HostileClientTest, ThatSpeaksHttp2BadlyHoldsUpNobody) {
  const std::string settings = Frame(4, 0, 0, "");
  const std::string path = "/tensorcask.rpc.v1.TensorExchange/Pull";
  const std::string header = absl::StrCat("\x83\x86", Field(":path", path), Field(":authority", "a"),
                                          Field("te", "trailers"), Field("content-type", "application/grpc"));
  const std::string begin = absl::StrCat(kPreface, settings, Frame(1, 4, 1, header));
  const std::string rows[] = {
      absl::StrCat(kPreface, settings, Frame(1, 4, 1, absl::StrCat(header, Field("x-text", "\xff\xfe\x80"))),
                   Frame(0, 1, 1, std::string(5, '\0'))),
      absl::StrCat(begin, Frame(0, 0, 1, std::string("\0\xff\xff\xff\xff", 5)), Frame(0, 1, 1, "abc")),  // 4 GiB follow
      absl::StrCat(begin, Frame(0, 0, 1, std::string("\0\0\x10\0\0", 5)), Frame(0, 1, 1, "abc")),  // 1 MiB follows
      absl::StrCat(begin, Frame(0, 1, 1, std::string("\7\0\0\0\0", 5))),             // an unknown compression
      absl::StrCat(kPreface, settings, std::string("\xff\xff\xff\0\0\0\0\0\1", 9)),  // a frame of 16 MiB
      absl::StrCat(kPreface, settings, Frame(1, 4, 1, "\xff\xff\xff\xff\xff\xff")),
      absl::StrCat(begin, Frame(8, 0, 1, std::string(4, '\0'))),  // a window that grows by nothing
      absl::StrCat(begin, Frame(3, 0, 1, std::string(4, '\1'))),  // cancelled at once
  };
  for (int round = 0; round < 10; ++round) {
    for (const std::string& bytes : rows) {
      const ScopedDescriptor client = Connect();
      Send(client, bytes);
    }
  }
  ExpectNoStreams();
  ExpectServed();
}

TEST_F(HostileClientTest, ThatCancelsHalfwayLeavesNothing) {
  int early = 0;
  for (int round = 0; round < 120; ++round) {
    grpc::ClientContext context;
    v1::PullRequest request;
    request.add_items()->set_name(round % 2 == 0 ? "turned" : "w");
    const auto reader = stub_->Pull(&context, request);
    v1::Piece piece;
    EXPECT_TRUE(reader->Read(&piece));
    context.TryCancel();
    EXPECT_FALSE(reader->Finish().ok() && reader->Read(&piece));
    ExpectNoStreams();  // and so no charge of memory
    if (round == 20) early = CountDescriptors();
  }
  EXPECT_LE(CountDescriptors(), early + 2);
  ExpectServed();
}

TEST_F(HostileClientTest, ThatHasNoTimeLeavesNothing) {
  for (int round = 0; round < 200; ++round) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(50 * round));
    v1::PullRequest request;
    request.add_items()->set_name("turned");
    const auto reader = stub_->Pull(&context, request);
    v1::Piece piece;
    while (reader->Read(&piece)) continue;
    const grpc::StatusCode code = reader->Finish().error_code();
    // A stream that the server has not removed yet holds the memory for it.
    EXPECT_TRUE(code == grpc::StatusCode::OK || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
                code == grpc::StatusCode::RESOURCE_EXHAUSTED)
        << code;
  }
  ExpectNoStreams();
  ExpectServed();
}

// Pieces of one byte.
TEST_F(HostileClientTest, ThatSendsManyTinyMessagesIsServed) {
  constexpr int kCount = 100000;
  v1::PushHeader header;
  header.add_tensors()->set_name("bytes");
  header.mutable_tensors(0)->set_dtype(DataType::DT_UINT8);
  header.mutable_tensors(0)->mutable_shape()->add_dim()->set_size(kCount);
  grpc::ClientContext context;
  v1::PushResponse response;
  const auto writer = stub_->Push(&context, &response);
  v1::Piece piece;
  piece.set_version_id(5);
  piece.set_data(header.SerializeAsString());
  piece.set_message_bytes(piece.data().size());
  piece.set_crc32c(Crc32c(piece.data()));
  ASSERT_TRUE(writer->Write(piece));
  piece.set_item(1);
  piece.clear_message_bytes();
  for (int i = 0; i < kCount; ++i) {
    piece.set_offset(static_cast<uint64_t>(i));
    piece.set_data(std::string(1, static_cast<char>(i * 7)));
    piece.set_crc32c(Crc32c(piece.data()));
    ASSERT_TRUE(writer->Write(piece)) << i;
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  const auto archive = RemoteArchive::Open(absl::StrCat("grpc://", server_->address()), {});
  ASSERT_OK_AND_ASSIGN(const Tensor bytes, (*archive)->Read("bytes"));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(bytes.data<uint8_t>()[i], static_cast<uint8_t>(i * 7));
}

TEST_F(HostileClientTest, ThatSendsMoreThanAMessageMayHaveIsRefused) {
  grpc::ClientContext context;
  v1::PushResponse response;
  const auto writer = stub_->Push(&context, &response);
  v1::Piece piece;
  piece.set_data(std::string(6 << 20, 'x'));
  writer->Write(piece);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectNoStreams();
  ExpectServed();
}

TEST_F(HostileClientTest, ASignalEachMillisecondDoesNoHarm) {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = [](int) {};  // without SA_RESTART: calls of the system fail with EINTR
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval every_ms = {{0, 1000}, {0, 1000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every_ms, nullptr), 0);
  for (int round = 0; round < 20; ++round) {
    ExpectServed();
    EXPECT_OK(PushTensors(absl::StrCat("grpc://", server_->address()), round,
                          {{"turned", *TensorView(w_).Transpose(0, 1)}, {"w", w_}}, {}));
  }
  const itimerval none = {};
  setitimer(ITIMER_REAL, &none, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

TEST_F(HostileClientTest, FindsTheAddressClosedOnceTheServerDrains) {
  server_->Drain(absl::ZeroDuration());
  RemoteOptions options;
  options.pull.max_attempts = 1;
  EXPECT_THAT(RemoteArchive::Open(absl::StrCat("grpc://", server_->address()), options),
              StatusIs(Code::kUnavailable, HasSubstr("onnect")));
}

}  // namespace
}  // namespace tensorcask
