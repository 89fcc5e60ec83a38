// Servers of archives that throw, that have tensors nobody can read, or that cost memory; and who may reach a server.

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/follow_folder.h"
#include "tensorcask/serialize/rpc/internal/connection_listener.h"
#include "tensorcask/serialize/rpc/internal/item_bytes.h"
#include "tensorcask/serialize/rpc/internal/remote_address.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/push_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TempFolder;
using Code = absl::StatusCode;
namespace v1 = rpc::v1;

// One tensor of two strings, "w"; what the test changes happens when it is read.
class OddArchive final : public ArchiveReader {
 public:
  OddArchive() : w_{Tensor::FromValues<std::string>({{"a", "b"}, {"c", "d"}}), {}} {
    entries_.push_back(DescribeTensor("w", w_));
  }
  absl::string_view format() const override { return "odd"; }
  const std::string& path() const override { return path_; }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  std::vector<std::string> notes() const override { return {"a note"}; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view /*name*/, const TensorSlice& /*slice*/) const override {
    return absl::UnimplementedError("a slice was copied");
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view /*name*/) const override {
    if (on_read) on_read();
    return w_;
  }
  absl::StatusOr<DecodedTensor> ReadIgnoringBadMetadata(absl::string_view name) const override {
    return ReadWithMetadata(name);
  }

  void AddUnreadable(const std::string& name) {
    ArchiveEntry entry;
    entry.name = name;
    entry.read_status = absl::UnimplementedError("is of a newer kind");
    entries_.insert(entries_.begin(), entry);  // before "w"
  }

  std::function<void()> on_read;

 private:
  const std::string path_ = "odd.file";
  const DecodedTensor w_;
  std::vector<ArchiveEntry> entries_;
};

// Serves one archive.
class OddSource final : public TensorSource {
 public:
  explicit OddSource(std::shared_ptr<const ArchiveReader> archive, bool in_memory)
      : snapshot_{MakeTensorVersion(1), std::move(archive), in_memory} {}
  absl::StatusOr<TensorSnapshot> Current() override {
    if (throws) throw std::bad_alloc();
    return snapshot_;
  }
  absl::StatusOr<TensorSnapshot> WaitForNewer(const TensorVersion& version, Deadline deadline) override {
    if (throws) throw std::bad_alloc();
    absl::SleepFor(deadline.remaining());
    if (version != snapshot_.version) return snapshot_;
    return absl::DeadlineExceededError("nothing newer");
  }
  absl::StatusOr<TensorVersion> Replace(TensorSet /*set*/) override { throw std::bad_alloc(); }

  std::atomic<bool> throws{false};

 private:
  const TensorSnapshot snapshot_;
};

std::string AddressOf(const TensorServer& server) { return absl::StrCat("grpc://", server.address()); }

RemoteOptions Patient() {
  RemoteOptions options;
  options.pull.stall_timeout = absl::Seconds(5);
  return options;
}

// The failure concerns one client, whose stream ends.
TEST(ExceptionTest, EndsOneStream) {
  for (const bool in_memory : {false, true}) {
    const auto archive = std::make_shared<OddArchive>();
    OddSource source(archive, in_memory);
    TensorServerOptions options;
    options.accept_pushes = true;
    ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&source, options));
    ASSERT_OK_AND_ASSIGN(const auto remote, RemoteArchive::Open(AddressOf(*server), Patient()));
    archive->on_read = [] { throw std::bad_alloc(); };
    EXPECT_THAT(remote->Read("w"), StatusIs(Code::kResourceExhausted));
    archive->on_read = nullptr;
    EXPECT_OK(remote->Read("w"));
    EXPECT_THAT(PushTensors(AddressOf(*server), 2, {{"w", Tensor::Scalar<float>(1)}}, Patient()),
                StatusIs(Code::kResourceExhausted));
    source.throws = true;
    EXPECT_THAT(remote->Refresh(), StatusIs(Code::kResourceExhausted));
    EXPECT_THAT(remote->Read("w"), StatusIs(Code::kResourceExhausted));
    EXPECT_THAT(remote->WaitForNewer(absl::Milliseconds(500)), StatusIs(Code::kDeadlineExceeded));
    source.throws = false;
    EXPECT_OK(remote->Refresh());
  }
}

TEST(UnreadableTensorTest, IsInANote) {
  const auto archive = std::make_shared<OddArchive>();
  archive->AddUnreadable("v");
  const auto notes_of = [](TensorSource* source) {
    const auto server = TensorServer::Start(source, {});
    EXPECT_OK(server);
    const auto remote = RemoteArchive::Open(AddressOf(**server), Patient());
    EXPECT_OK(remote);
    EXPECT_EQ((*remote)->entries().size(), 1);
    return (*remote)->notes();
  };
  const auto are_both = ElementsAre(HasSubstr("a note"), "not served: odd.file: tensor \"v\": is of a newer kind");
  EXPECT_THAT(notes_of(ServeArchive(archive).get()), are_both);
  ASSERT_OK_AND_ASSIGN(const auto merged, ServeArchives({{"", archive}}));
  EXPECT_THAT(notes_of(merged.get()), are_both);

  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(folder.path()));
  ASSERT_OK(manager.Save(1, [](CheckpointWriter& writer) { return writer.Add("w", Tensor::Scalar<float>(1)); }));
  for (const bool in_memory : {false, true}) {
    FollowFolderOptions options;
    options.in_memory = in_memory;
    const auto source = FollowFolder(
        folder.path(),
        [](const std::string&) {
          auto opened = std::make_unique<OddArchive>();
          opened->AddUnreadable("v");
          return absl::StatusOr<std::unique_ptr<ArchiveReader>>(std::move(opened));
        },
        options);
    EXPECT_THAT(notes_of(source.get()), are_both) << in_memory;
  }
  for (int i = 0; i < 200; ++i) archive->AddUnreadable(absl::StrCat("u", 999 - i));
  const std::vector<std::string> notes = notes_of(ServeArchive(archive).get());
  EXPECT_EQ(notes.size(), 102);
  EXPECT_EQ(notes.back(), "not served: odd.file: 101 more tensors that cannot be read");
}

// A part of a tensor in memory is a view of it.
TEST(MemoryOfAServerTest, IsNotSpentOnSlicesInMemory) {
  const TensorSnapshot snapshot = {MakeTensorVersion(1), std::make_shared<OddArchive>(), /*in_memory=*/true};
  DecodeQuota memory("max_memory_bytes", 1000);
  rpc::ItemRequest item;
  item.name = "w";
  item.as_message = true;
  item.slice = *TensorSlice::Parse("-:1,1");
  ASSERT_OK_AND_ASSIGN(const auto column, rpc::OpenItem(snapshot, item, &memory));
  EXPECT_EQ(memory.charged(), column->total_bytes());
  ASSERT_OK_AND_ASSIGN(const rpc::ItemBytes::Piece piece, column->Next());
  ASSERT_OK_AND_ASSIGN(const Tensor read, DecodeSerializedTensor(piece.bytes));
  EXPECT_EQ(read.shape(), TensorShape({2, 1}));
  EXPECT_EQ(read.data<std::string>()[1], "d");
}

grpc::Status Pull(const TensorServer& server, const v1::PullRequest& request) {
  const auto stub =
      v1::TensorExchange::NewStub(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto reader = stub->Pull(&context, request);
  v1::Piece piece;
  while (reader->Read(&piece)) continue;
  return reader->Finish();
}

// A request of few bytes may have many items.
TEST(MemoryOfAServerTest, IsChargedForTheItemsOfARequest) {
  OddSource source(std::make_shared<OddArchive>(), /*in_memory=*/true);
  TensorServerOptions options;
  options.max_memory_bytes = 1 << 20;
  ASSERT_OK_AND_ASSIGN(auto server, TensorServer::Start(&source, options));
  v1::PullRequest request;
  for (int i = 0; i < 100; ++i) request.add_items();
  EXPECT_EQ(Pull(*server, request).error_code(), grpc::StatusCode::NOT_FOUND);  // no tensor has the name ""
  for (int i = 0; i < 100'000; ++i) request.add_items();
  const grpc::Status many = Pull(*server, request);
  EXPECT_EQ(many.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(many.error_message(), HasSubstr("max_memory_bytes is 1048576"));
  request.Clear();
  auto* const slice = request.add_items()->mutable_slice();
  for (int i = 0; i < 100'000; ++i) slice->add_extent();
  EXPECT_EQ(Pull(*server, request).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  // A stream that is not accepted costs nothing: its items are not looked at.
  options.max_streams = 0;
  ASSERT_OK_AND_ASSIGN(server, TensorServer::Start(&source, options));
  EXPECT_THAT(Pull(*server, request).error_message(), HasSubstr("max_streams is 0"));
}

TEST(LoopbackTest, IsAnAddressOfNumbers) {
  for (const char* const host : {"localhost", "127.0.0.1", "127.1", "127.9.9.9", "[::1]", "::1"}) {
    EXPECT_TRUE(rpc::IsLoopback(host)) << host;
  }
  for (const char* const host : {"127.gpu.example.com", "127.0.0.1.example.com", "128.0.0.1", "here", "0.0.0.0", ""}) {
    EXPECT_FALSE(rpc::IsLoopback(host)) << host;
  }
}

TEST(LoopbackTest, IsWhatTheHostResolvesTo) {
  for (const char* const address : {"localhost:0", "127.0.0.1:0", "127.1:0", "2130706433:0"}) {
    ASSERT_OK_AND_ASSIGN(const auto listener, rpc::ConnectionListener::Create(address));
    EXPECT_TRUE(listener->is_loopback()) << address;
  }
  LiveTensors live;
  for (const char* const address : {"0.0.0.0:0", "0:0"}) {
    ASSERT_OK_AND_ASSIGN(const auto listener, rpc::ConnectionListener::Create(address));
    EXPECT_FALSE(listener->is_loopback()) << address;
    TensorServerOptions options;
    options.address = address;
    EXPECT_THAT(TensorServer::Start(&live, options), StatusIs(Code::kInvalidArgument, HasSubstr("no credentials")));
  }
}

}  // namespace
}  // namespace tensorcask
