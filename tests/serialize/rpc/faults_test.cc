// What a client does with a server that lies, dies or stops, and a server with such clients.

#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/serialize/rpc/internal/stream_call.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/push_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;
namespace v1 = rpc::v1;

Tensor Numbers(int64_t count) {
  Tensor tensor = *Tensor::Create(DType::kInt32, TensorShape({count}));
  std::iota(tensor.mutable_data<int32_t>(), tensor.mutable_data<int32_t>() + count, 0);
  return tensor;
}

// Offers "w", int32 [4], and says and sends what the test wants.
class LyingService final : public v1::TensorExchange::Service {
 public:
  using Writer = grpc::ServerWriter<v1::Piece>;

  grpc::Status List(grpc::ServerContext* /*context*/, const v1::ListRequest* request,
                    v1::ListResponse* response) override {
    response->mutable_version()->set_id(77);
    v1::OfferedTensor* const tensor = response->add_tensors();
    tensor->set_name("w");
    tensor->set_dtype(DataType::DT_INT32);
    tensor->mutable_shape()->add_dim()->set_size(4);
    tensor->set_encoding("plain");
    if (change_list) change_list(*request, response);
    return grpc::Status::OK;
  }
  grpc::Status Pull(grpc::ServerContext* context, const v1::PullRequest* request, Writer* writer) override {
    ++pulls;
    ++running;
    const grpc::Status status = pull(context, *request, writer);
    --running;
    return status;
  }

  grpc::Status Push(grpc::ServerContext* /*context*/, grpc::ServerReader<v1::Piece>* reader,
                    v1::PushResponse* response) override {
    return push(reader, response);
  }

  std::function<void(const v1::ListRequest&, v1::ListResponse*)> change_list;
  std::function<grpc::Status(grpc::ServerReader<v1::Piece>*, v1::PushResponse*)> push;
  std::function<grpc::Status(grpc::ServerContext*, const v1::PullRequest&, Writer*)> pull;
  std::atomic<int> pulls{0};
  std::atomic<int> running{0};
};

class LyingServerTest : public ::testing::Test {
 protected:
  LyingServerTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("grpc://127.0.0.1:", port);
    options_.pull.first_delay = absl::Milliseconds(1);
    options_.pull.max_attempts = 3;
  }
  ~LyingServerTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  v1::Piece GoodPiece() const {
    v1::Piece piece;
    piece.set_data(elements_);
    piece.set_crc32c(Crc32c(elements_));
    piece.set_version_id(77);
    return piece;
  }
  absl::StatusOr<Tensor> ReadFrom(std::vector<v1::Piece> pieces, grpc::Status end = grpc::Status::OK) {
    // A client that refuses a piece does not wait for the end of the call.
    while (service_.running != 0) absl::SleepFor(absl::Milliseconds(1));
    service_.pull = [=](grpc::ServerContext*, const v1::PullRequest&, LyingService::Writer* writer) {
      for (const v1::Piece& piece : pieces) writer->Write(piece);
      return end;
    };
    CASK_ASSIGN_OR_RETURN(const auto archive, RemoteArchive::Open(address_, options_));
    return archive->Read("w");
  }

  const Tensor numbers_ = Numbers(4);
  const std::string elements_ = std::string(TensorView(numbers_).bytes());
  LyingService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  RemoteOptions options_;
};

TEST_F(LyingServerTest, IsReadWhileItSaysTheTruth) {
  ASSERT_OK_AND_ASSIGN(const Tensor w, ReadFrom({GoodPiece()}));
  EXPECT_EQ(TensorView(w).bytes(), elements_);
}

TEST_F(LyingServerTest, IsRefusedOnceAndForAll) {
  struct Row {
    const char* name;
    std::function<void(std::vector<v1::Piece>*)> change;
    const char* says;
  };
  const Row rows[] = {
      {"WrongSum", [](auto* pieces) { (*pieces)[0].set_crc32c(1); }, "have the checksum"},
      {"NoSum", [](auto* pieces) { (*pieces)[0].clear_crc32c(); }, "have the checksum"},
      {"OtherVersion", [](auto* pieces) { (*pieces)[0].set_version_id(78); }, "a piece is of version"},
      {"OffsetOutside", [](auto* pieces) { (*pieces)[0].set_offset(16); }, "a piece of offset 16 came"},
      {"NotAsked", [](auto* pieces) { (*pieces)[0].set_item(1); }, "a piece of item 1 came"},
      {"Twice", [](auto* pieces) { pieces->push_back((*pieces)[0]); }, "16 bytes too many"},
      {"Nothing", [](auto* pieces) { pieces->clear(); }, "the server ended after byte 0 of 16"},
      {"TooFew",
       [](auto* pieces) {
         (*pieces)[0].mutable_data()->resize(8);
         (*pieces)[0].set_crc32c(Crc32c((*pieces)[0].data()));
       },
       "the server ended after byte 8 of 16"},
      {"TooMany",
       [](auto* pieces) {
         (*pieces)[0].mutable_data()->resize(20);
         (*pieces)[0].set_crc32c(Crc32c((*pieces)[0].data()));
       },
       "leaves the 16 bytes of int32 [4]"},
      {"Empty", [](auto* pieces) { (*pieces)[0].clear_data(); }, "has no data"},
  };
  for (const Row& row : rows) {
    std::vector<v1::Piece> pieces = {GoodPiece()};
    row.change(&pieces);
    service_.pulls = 0;
    EXPECT_THAT(ReadFrom(pieces), StatusIs(Code::kDataLoss, HasSubstr(row.says))) << row.name;
    EXPECT_EQ(service_.pulls, 1) << row.name << ": a lie is not asked for again";
  }
}

TEST_F(LyingServerTest, CannotSendAListThatBreaksTheRules) {
  struct Row {
    const char* name;
    std::function<void(const v1::ListRequest&, v1::ListResponse*)> change;
    const char* says;
  };
  const Row rows[] = {
      {"NoVersion", [](const auto&, auto* list) { list->clear_version(); }, "wanted a version"},
      {"UnknownDType", [](const auto&, auto* list) { list->mutable_tensors(0)->set_dtype(static_cast<DataType>(63)); },
       "no dtype has the number 63"},
      {"NegativeDim",
       [](const auto&, auto* list) { list->mutable_tensors(0)->mutable_shape()->mutable_dim(0)->set_size(-1); },
       "dim 0"},
      {"TooLarge",
       [](const auto&, auto* list) {
         for (int i = 0; i < 3; ++i) list->mutable_tensors(0)->mutable_shape()->add_dim()->set_size(int64_t{1} << 40);
       },
       "tensor \"w\""},
      {"Strides",
       [](const auto&, auto* list) {
         list->mutable_tensors(0)->add_strides(1);
         list->mutable_tensors(0)->add_strides(1);
       },
       "2 strides for the shape [4]"},
      {"Encoding", [](const auto&, auto* list) { list->mutable_tensors(0)->set_encoding("a\tb"); },
       "is not an encoding"},
      {"NoEncoding", [](const auto&, auto* list) { list->mutable_tensors(0)->clear_encoding(); }, "is not an encoding"},
      {"Twice", [](const auto&, auto* list) { *list->add_tensors() = list->tensors(0); }, "names must come once"},
      {"EndlessList",
       [](const auto& request, auto* list) {
         list->clear_tensors();
         list->set_next(request.start() + 1);
       },
       "has 0 tensors"},
      {"Backwards",
       [](const auto& request, auto* list) {
         list->mutable_tensors(0)->set_name(absl::StrCat("w", request.start()));
         list->set_next(1);
       },
       "is followed by 1"},
      {"OtherVersion",
       [](const auto& request, auto* list) {
         list->mutable_tensors(0)->set_name(absl::StrCat("w", request.start()));
         list->mutable_version()->set_id(77 + request.start());
         list->set_next(request.start() + 1);
       },
       "a page of the list is of"},
  };
  for (const Row& row : rows) {
    service_.change_list = row.change;
    EXPECT_THAT(RemoteArchive::Open(address_, options_), StatusIs(Code::kDataLoss, HasSubstr(row.says))) << row.name;
  }
}

TEST_F(LyingServerTest, CannotSendMetadataThatBreaksTheRules) {
  const auto open_with = [&](const std::string& bytes) {
    service_.change_list = [](const v1::ListRequest&, v1::ListResponse* response) {
      response->set_has_file_metadata(true);
    };
    service_.pull = [=](grpc::ServerContext*, const v1::PullRequest& request, LyingService::Writer* writer) {
      if (!request.items(0).file_metadata()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "");
      v1::Piece piece;
      piece.set_version_id(77);
      piece.set_message_bytes(bytes.size());
      piece.set_data(bytes);
      piece.set_crc32c(Crc32c(bytes));
      writer->Write(piece);
      return grpc::Status::OK;
    };
    return RemoteArchive::Open(address_, options_);
  };
  v1::FileMetadata metadata;
  metadata.add_entries()->set_key("b");
  metadata.add_entries()->set_key("c");
  metadata.mutable_entries(1)->set_value("3");
  ASSERT_OK_AND_ASSIGN(const auto archive, open_with(metadata.SerializeAsString()));
  EXPECT_EQ(archive->file_metadata(), FileMetadata({{"b", ""}, {"c", "3"}}));
  metadata.add_entries()->set_key("c");
  EXPECT_THAT(open_with(metadata.SerializeAsString()),
              StatusIs(Code::kDataLoss, HasSubstr("the metadata \"c\" comes after \"c\"")));
  EXPECT_THAT(open_with("no message"), StatusIs(Code::kDataLoss, HasSubstr("not a FileMetadata")));
  // Many empty notes: few bytes that would take much memory.
  std::string notes;
  for (int i = 0; i < 1'000'000; ++i) notes.append("\x12\x00", 2);
  EXPECT_THAT(open_with(notes), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  options_.limits.max_message_bytes = 8;
  EXPECT_THAT(open_with(metadata.SerializeAsString()),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_message_bytes")));
}

TEST_F(LyingServerTest, MayRefuse) {
  const std::pair<grpc::StatusCode, Code> rows[] = {{grpc::StatusCode::UNAUTHENTICATED, Code::kUnauthenticated},
                                                    {grpc::StatusCode::PERMISSION_DENIED, Code::kPermissionDenied},
                                                    {grpc::StatusCode::RESOURCE_EXHAUSTED, Code::kResourceExhausted},
                                                    {grpc::StatusCode::ABORTED, Code::kAborted}};
  for (const auto& [sent, code] : rows) {
    service_.pulls = 0;
    EXPECT_THAT(ReadFrom({}, grpc::Status(sent, "so it is")), StatusIs(code, HasSubstr("so it is")));
    EXPECT_EQ(service_.pulls, 1);
  }
  service_.pulls = 0;
  EXPECT_THAT(ReadFrom({}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")),
              StatusIs(Code::kUnavailable, HasSubstr("draining")));
  EXPECT_EQ(service_.pulls, options_.pull.max_attempts);
}

// Sends one element, is gone, and is asked for the next one, each time.
TEST_F(LyingServerTest, IsAskedForTheRestAfterAnInterruption) {
  std::vector<uint64_t> offsets;
  service_.pull = [&](grpc::ServerContext*, const v1::PullRequest& request, LyingService::Writer* writer) {
    const uint64_t offset = request.items(0).offset();
    offsets.push_back(offset);
    v1::Piece piece = GoodPiece();
    piece.set_offset(offset);
    piece.set_data(elements_.substr(offset, 4));
    piece.set_crc32c(Crc32c(piece.data()));
    writer->Write(piece);
    return offset == 12 ? grpc::Status::OK : grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  };
  options_.pull.max_attempts = 2;  // without a piece between them
  ASSERT_OK_AND_ASSIGN(const auto archive, RemoteArchive::Open(address_, options_));
  ASSERT_OK_AND_ASSIGN(const Tensor w, archive->Read("w"));
  EXPECT_EQ(TensorView(w).bytes(), elements_);
  EXPECT_THAT(offsets, ::testing::ElementsAre(0, 4, 8, 12));
}

TEST_F(LyingServerTest, MayNotBeSilentForLong) {
  service_.pull = [&](grpc::ServerContext* context, const v1::PullRequest&, LyingService::Writer* writer) {
    v1::Piece piece = GoodPiece();
    piece.set_data(elements_.substr(0, 4));
    piece.set_crc32c(Crc32c(piece.data()));
    writer->Write(piece);
    while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::OK;
  };
  options_.pull.stall_timeout = absl::Milliseconds(200);
  ASSERT_OK_AND_ASSIGN(auto archive, RemoteArchive::Open(address_, options_));
  EXPECT_THAT(archive->Read("w"), StatusIs(Code::kDeadlineExceeded, HasSubstr("sent nothing for 200ms")));

  options_.pull.stall_timeout = absl::Minutes(1);
  ASSERT_OK_AND_ASSIGN(archive, RemoteArchive::Open(address_, options_));
  Tensor memory = Numbers(4);
  TensorView view = memory;
  PullOptions pull = options_.pull;
  pull.timeout = absl::Milliseconds(200);
  EXPECT_THAT(PullInto(archive.get(), {{"w", std::nullopt, &view}}, pull), StatusIs(Code::kDeadlineExceeded));
}

// The caller may have freed that memory.
TEST_F(LyingServerTest, WritesToNoMemoryAfterAnError) {
  std::atomic<bool> is_late{false};
  service_.pull = [&](grpc::ServerContext* context, const v1::PullRequest&, LyingService::Writer* writer) {
    while (!is_late && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    writer->Write(GoodPiece());
    return grpc::Status::OK;
  };
  const auto channel =
      grpc::CreateChannel(address_.substr(address_.rfind('/') + 1), grpc::InsecureChannelCredentials());
  grpc::ByteBuffer message;
  {
    rpc::StreamCall::Stub stub(channel);
    rpc::StreamCall call(&stub, "/tensorcask.rpc.v1.TensorExchange/Pull", absl::Minutes(1), absl::Milliseconds(100),
                         "the server sent nothing", nullptr);
    ASSERT_OK(call.Start());
    const grpc::Slice no_items;
    ASSERT_OK(call.WriteLast(grpc::ByteBuffer(&no_items, 1)));
    EXPECT_THAT(call.Read(&message), StatusIs(Code::kDeadlineExceeded, HasSubstr("sent nothing for 100ms")));
    is_late = true;
    while (service_.running != 0) absl::SleepFor(absl::Milliseconds(1));
    for (int i = 0; i < 3; ++i) {  // calls that read what came over the connection
      grpc::ClientContext context;
      v1::ListResponse page;
      EXPECT_TRUE(v1::TensorExchange::NewStub(channel)->List(&context, v1::ListRequest(), &page).ok());
    }
  }
  EXPECT_FALSE(message.Valid());
}

// A push has not arrived unless the server says under which version.
TEST_F(LyingServerTest, CannotTakeAPushWithoutAVersion) {
  const auto push = [&] { return PushTensors(address_, 1, {{"w", numbers_}}, options_); };
  const auto read_all = [](grpc::ServerReader<v1::Piece>* reader) {
    v1::Piece piece;
    while (reader->Read(&piece)) continue;
  };
  service_.push = [&](auto* reader, auto* response) {
    read_all(reader);
    response->mutable_version()->set_id(5);
    return grpc::Status::OK;
  };
  ASSERT_OK_AND_ASSIGN(const TensorVersion version, push());
  EXPECT_EQ(version.id, 5);
  service_.push = [&](auto* reader, auto*) {
    read_all(reader);
    return grpc::Status::OK;
  };
  EXPECT_THAT(push(), StatusIs(Code::kDataLoss, HasSubstr("without an error and without a version")));
}

TEST(NoServerTest, IsUnavailable) {
  RemoteOptions options;
  options.pull.max_attempts = 2;
  options.pull.first_delay = absl::Milliseconds(1);
  EXPECT_THAT(RemoteArchive::Open("grpc://127.0.0.1:1", options),
              StatusIs(Code::kUnavailable, HasSubstr("grpc://127.0.0.1:1: ")));
}

// Forwards connections to a server, and cuts each one after a number of bytes from the server.
class CuttingProxy {
 public:
  CuttingProxy(int server_port, std::function<int64_t()> next_cut)
      : server_port_(server_port), next_cut_(std::move(next_cut)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~CuttingProxy() {
    ends_ = true;
    thread_.join();
    close(listener_);
  }
  int port() const { return port_; }
  int cuts() const { return cuts_; }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void Run() {
    while (!ends_) {
      pollfd waiting = {listener_, POLLIN, 0};
      if (poll(&waiting, 1, 10) != 1) continue;
      const int client = accept(listener_, nullptr, nullptr);
      const int server = socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in address = Loopback(server_port_);
      if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) Forward(client, server);
      const linger reset = {1, 0};
      setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      close(client);
      close(server);
    }
  }

  void Forward(int client, int server) {
    int64_t left = next_cut_();
    std::vector<char> block(64 << 10);
    while (!ends_) {
      std::array<pollfd, 2> both = {pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
      if (poll(both.data(), both.size(), 10) <= 0) continue;
      for (size_t i = 0; i < both.size(); ++i) {
        if (both[i].revents == 0) continue;
        const size_t wanted = i == 0 ? block.size() : std::min(block.size(), static_cast<size_t>(left));
        const ssize_t got = recv(both[i].fd, block.data(), wanted, 0);
        if (got <= 0) return;
        const int to = i == 0 ? server : client;
        for (ssize_t sent = 0; sent < got;) {
          const ssize_t more = send(to, block.data() + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
          if (more <= 0) return;
          sent += more;
        }
        if (i == 1 && (left -= got) == 0) {
          ++cuts_;
          return;
        }
      }
    }
  }

  const int server_port_;
  const std::function<int64_t()> next_cut_;
  const int listener_;
  int port_ = 0;
  std::atomic<bool> ends_{false};
  std::atomic<int> cuts_{0};
  std::thread thread_;
};

TEST(CutConnectionTest, GoesOnWhereItStopped) {
  LiveTensors live;
  const Tensor w = Numbers(6'000'000);  // 24 MB
  ASSERT_OK(live.Publish(1, {{"w", w}}));
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&live, {}));
  uint32_t seed = 1;
  const CuttingProxy proxy(server->port(), [&seed] {
    seed = seed * 1664525 + 1013904223;
    return 3'000'000 + static_cast<int64_t>(seed % 2'000'000);
  });
  RemoteOptions options;
  options.pull.first_delay = absl::Milliseconds(1);
  ASSERT_OK_AND_ASSIGN(const auto archive,
                       RemoteArchive::Open(absl::StrCat("grpc://127.0.0.1:", proxy.port()), options));
  ASSERT_OK_AND_ASSIGN(const Tensor read, archive->Read("w"));
  EXPECT_EQ(TensorView(read).bytes(), TensorView(w).bytes());
  EXPECT_GE(proxy.cuts(), 4);
  EXPECT_GT(server->stats().total_streams, 4);
}

TEST(CutConnectionTest, EndsWhereNothingArrives) {
  LiveTensors live;
  ASSERT_OK(live.Publish(1, {{"w", Numbers(1'000'000)}}));
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&live, {}));
  const CuttingProxy proxy(server->port(), [] { return 100'000; });  // a list, and less than a piece
  RemoteOptions options;
  options.pull.first_delay = absl::Milliseconds(1);
  options.pull.max_attempts = 3;
  ASSERT_OK_AND_ASSIGN(const auto archive,
                       RemoteArchive::Open(absl::StrCat("grpc://127.0.0.1:", proxy.port()), options));
  EXPECT_THAT(archive->Read("w"), StatusIs(Code::kUnavailable));
  EXPECT_GE(proxy.cuts(), 2);
}

// A client that asks for a tensor and takes nothing.
TEST(SlowClientTest, IsEnded) {
  LiveTensors live;
  ASSERT_OK(live.Publish(1, {{"w", Numbers(8'000'000)}}));
  TensorServerOptions options;
  options.slow_client = absl::Milliseconds(200);
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&live, options));
  const auto channel = grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::TensorExchange::NewStub(channel);
  grpc::ClientContext context;
  v1::PullRequest request;
  request.add_items()->set_name("w");
  const auto reader = stub->Pull(&context, request);
  v1::Piece piece;
  ASSERT_TRUE(reader->Read(&piece));
  for (int i = 0; i < 1000 && server->stats().slow_streams == 0; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(server->stats().slow_streams, 1);
  while (reader->Read(&piece)) continue;
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  for (int i = 0; i < 1000 && server->stats().num_streams != 0; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(server->stats().num_streams, 0);
}

// What no client of ours sends.
TEST(StrangeClientTest, IsRefused) {
  LiveTensors live;
  ASSERT_OK(live.Publish(1, {{"w", Numbers(4)}, {"t", Tensor::FromValues<std::string>({"a"})}}));
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&live, {}));
  const auto channel = grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::TensorExchange::NewStub(channel);
  const auto pull = [&](const v1::PullRequest& request) {
    grpc::ClientContext context;
    const auto reader = stub->Pull(&context, request);
    v1::Piece piece;
    while (reader->Read(&piece)) continue;
    return reader->Finish();
  };
  const auto item = [](const std::string& name, uint64_t offset = 0) {
    v1::PullRequest request;
    request.add_items()->set_name(name);
    request.mutable_items(0)->set_offset(offset);
    return request;
  };
  EXPECT_TRUE(pull(item("w")).ok());
  EXPECT_TRUE(pull(item("w", 16)).ok());
  EXPECT_TRUE(pull({}).ok());
  EXPECT_EQ(pull(item("x")).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(pull(item("w", 17)).error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(pull(item("w", 2)).error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(pull(item("t")).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::PullRequest request = item("w");
  request.mutable_version()->set_id(1);
  EXPECT_EQ(pull(request).error_code(), grpc::StatusCode::ABORTED);
  request = item("w");
  request.mutable_items(0)->mutable_slice()->add_extent()->set_start(-5);
  EXPECT_EQ(pull(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(pull(item(std::string(5 << 20, 'x'))).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  grpc::ClientContext context;
  v1::ListRequest list;
  list.set_start(uint64_t{1} << 63);
  v1::ListResponse page;
  EXPECT_EQ(stub->List(&context, list, &page).error_code(), grpc::StatusCode::OUT_OF_RANGE);

  // Bytes that are not a request.
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> raw(channel);
  grpc::ClientContext raw_context;
  grpc::CompletionQueue queue;
  const auto stream = raw.PrepareCall(&raw_context, "/tensorcask.rpc.v1.TensorExchange/Pull", &queue);
  const grpc::Slice slice(std::string("\xff\xff\xff"));
  const grpc::ByteBuffer bytes(&slice, 1);
  void* tag = nullptr;
  bool ok = false;
  grpc::Status status;
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  stream->WriteLast(bytes, grpc::WriteOptions(), nullptr);
  queue.Next(&tag, &ok);
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "the request is not a PullRequest");
}

TEST(ManyClientsTest, AreServedAtOnce) {
  LiveTensors live;
  const Tensor w = Numbers(1'000'000);
  ASSERT_OK(live.Publish(1, {{"w", w}}));
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&live, {}));
  std::vector<std::thread> clients;
  std::atomic<int> whole{0};
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      const auto archive = RemoteArchive::Open(absl::StrCat("grpc://", server->address()), {});
      for (int round = 0; archive.ok() && round < 3; ++round) {
        const auto read = (*archive)->Read("w");
        if (read.ok() && TensorView(*read).bytes() == TensorView(w).bytes()) ++whole;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(whole, 48);
  EXPECT_EQ(server->stats().total_streams, 48);
}

}  // namespace
}  // namespace tensorcask
