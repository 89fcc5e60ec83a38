// New versions: published, pushed by clients, found in the folder of a run; and clients that wait for them.

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/formats/checkpoint_format.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/rpc/follow_folder.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/push_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TempFolder;
using Code = absl::StatusCode;
namespace v1 = rpc::v1;

Tensor Number(int32_t number) { return Tensor::FromValues<int32_t>({number}); }
int32_t NumberOf(const absl::StatusOr<Tensor>& tensor) { return tensor.ok() ? *tensor->data<int32_t>() : -1; }

std::string AddressOf(const TensorServer& server) { return absl::StrCat("grpc://", server.address()); }

TEST(WatchTest, TellsOfEachNewVersion) {
  LiveTensors live;
  ASSERT_OK(live.Publish(1, {{"w", Number(10)}}));
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&live, {}));
  ASSERT_OK_AND_ASSIGN(const auto archive, RemoteArchive::Open(AddressOf(*server), {}));
  EXPECT_THAT(archive->WaitForNewer(absl::Milliseconds(50)),
              StatusIs(Code::kDeadlineExceeded, HasSubstr("no version newer than step 1")));
  std::thread trainer([&] {
    for (int step = 2; step <= 5; ++step) {
      absl::SleepFor(absl::Milliseconds(20));
      EXPECT_OK(live.Publish(step, {{"w", Number(10 * step)}}));
    }
  });
  int64_t step = 1;
  while (step < 5) {
    ASSERT_OK_AND_ASSIGN(const TensorVersion newer, archive->WaitForNewer(absl::Minutes(1)));
    EXPECT_GT(newer.step, step);
    ASSERT_OK(archive->Refresh());
    step = archive->version().step;
    const absl::StatusOr<Tensor> w = archive->Read("w");
    if (absl::IsAborted(w.status())) continue;  // the next one was published meanwhile
    EXPECT_EQ(NumberOf(w), 10 * step);
  }
  trainer.join();
  server->Drain(absl::Seconds(10));  // ends the watches
  EXPECT_EQ(server->stats().num_streams, 0);
}

TEST(WatchTest, OutlivesTheServer) {
  LiveTensors live;
  ASSERT_OK(live.Publish(1, {{"w", Number(1)}}));
  ASSERT_OK_AND_ASSIGN(auto server, TensorServer::Start(&live, {}));
  ASSERT_OK_AND_ASSIGN(const auto archive, RemoteArchive::Open(AddressOf(*server), {}));
  TensorServerOptions options;
  options.address = server->address();
  std::thread operator_thread([&] {
    absl::SleepFor(absl::Milliseconds(100));
    server.reset();
    absl::StatusOr<std::unique_ptr<TensorServer>> again = absl::UnknownError("");
    for (int i = 0; i < 100 && !again.ok(); ++i) again = TensorServer::Start(&live, options);
    EXPECT_OK(again);
    EXPECT_OK(live.Publish(2, {{"w", Number(2)}}));
    if (again.ok()) server = *std::move(again);
  });
  ASSERT_OK_AND_ASSIGN(const TensorVersion newer, archive->WaitForNewer(absl::Minutes(1)));
  operator_thread.join();
  EXPECT_EQ(newer.step, 2);
}

// Says stop after some questions, as Ctrl-C of a user does.
std::function<bool()> StopsAfter(int questions) {
  auto left = std::make_shared<std::atomic<int>>(questions);
  return [left] { return (*left)-- > 0; };
}

TEST(KeepGoingTest, EndsCallsThatWait) {
  LiveTensors live;
  ASSERT_OK(live.Publish(1, {{"w", Number(1)}}));
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&live, {}));
  RemoteOptions options;
  options.pull.keep_going = StopsAfter(12);  // the list takes fewer
  ASSERT_OK_AND_ASSIGN(auto archive, RemoteArchive::Open(AddressOf(*server), options));
  EXPECT_THAT(archive->WaitForNewer(Deadline::Never()), StatusIs(Code::kCancelled, HasSubstr("stopped")));
  EXPECT_THAT(archive->Read("w").status(), StatusIs(Code::kCancelled, HasSubstr("stopped")));
  EXPECT_THAT(archive->Refresh(), StatusIs(Code::kCancelled, HasSubstr("stopped")));
  EXPECT_THAT(PushTensors(AddressOf(*server), 2, {{"w", Number(2)}}, options),
              StatusIs(Code::kCancelled, HasSubstr("stopped")));
}

TEST(KeepGoingTest, EndsThePausesBetweenAttempts) {
  RemoteOptions options;
  options.pull.first_delay = absl::Hours(1);
  options.pull.keep_going = StopsAfter(20);
  // Nothing listens at port 1.
  EXPECT_THAT(RemoteArchive::Open("grpc://127.0.0.1:1", options), StatusIs(Code::kCancelled, HasSubstr("stopped")));
}

class PushTest : public ::testing::Test {
 protected:
  PushTest() {
    options_.accept_pushes = true;
    EXPECT_OK(live_.Publish(1, {{"w", Number(1)}}));
  }
  void Serve() {
    auto server = TensorServer::Start(&live_, options_);
    ASSERT_OK(server);
    server_ = *std::move(server);
  }
  int64_t step() { return live_.Current()->version.step; }

  static v1::Piece PieceOf(uint32_t item, const std::string& data, uint64_t message_bytes) {
    v1::Piece made;
    made.set_item(item);
    made.set_version_id(5);
    made.set_message_bytes(message_bytes);
    made.set_data(data);
    made.set_crc32c(Crc32c(data));
    return made;
  }
  // What a client of another kind may send.
  grpc::Status Push(const v1::PushHeader& header, const std::vector<v1::Piece>& pieces) {
    const auto stub =
        v1::TensorExchange::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    const std::string bytes = header.SerializeAsString();
    grpc::ClientContext context;
    v1::PushResponse response;
    const auto writer = stub->Push(&context, &response);
    writer->Write(PieceOf(0, bytes, bytes.size()));
    for (const v1::Piece& piece : pieces) writer->Write(piece);
    writer->WritesDone();
    return writer->Finish();
  }

  LiveTensors live_;
  TensorServerOptions options_;
  std::unique_ptr<TensorServer> server_;
};

TEST_F(PushTest, ReplacesWhatIsServed) {
  Serve();
  Tensor large = *Tensor::Create(DType::kUint8, TensorShape({3'000'000}));
  for (int64_t i = 0; i < large.num_elements(); ++i) large.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
  const Tensor grid = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  const TensorView turned = *TensorView(grid).Transpose(0, 1);
  ASSERT_OK_AND_ASSIGN(const TensorVersion version,
                       PushTensors(AddressOf(*server_), 2,
                                   {{"large", large},
                                    {"text", Tensor::FromValues<std::string>({"a", "bc"})},
                                    {"turned", turned},
                                    {"empty", *Tensor::Create(DType::kFloat32, TensorShape({0, 2}))}},
                                   {}));
  EXPECT_EQ(version, live_.Current()->version);
  EXPECT_EQ(version.step, 2);
  ASSERT_OK_AND_ASSIGN(const auto archive, RemoteArchive::Open(AddressOf(*server_), {}));
  EXPECT_EQ(archive->entries().size(), 4);
  EXPECT_EQ(TensorView(*archive->Read("large")).bytes(), TensorView(large).bytes());
  EXPECT_EQ(archive->Read("text")->data<std::string>()[1], "bc");
  EXPECT_EQ(TensorView(*archive->Read("turned")).bytes(), turned.Contiguous()->bytes());
  EXPECT_EQ(server_->stats().pushes, 1);
}

TEST_F(PushTest, BringsMetadataAndStrides) {
  Serve();
  const Tensor grid = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  TensorMetadata metadata;
  metadata.name = "w";
  metadata.requires_grad = true;
  metadata.attributes["unit"] = "m/s";
  TensorMetadata of_text;
  of_text.attributes["language"] = "en";
  ASSERT_OK(PushTensors(AddressOf(*server_), 2,
                        {{"text", Tensor::FromValues<std::string>({"a"}), of_text},
                         {"turned", *TensorView(grid).Transpose(0, 1), metadata},
                         {"twice", *TensorView(grid).Slice(0, 0, 1)->Expand({4, 3}), metadata}},
                        {}, {{"epoch", "3"}}));
  ASSERT_OK_AND_ASSIGN(const auto archive, RemoteArchive::Open(AddressOf(*server_), {}));
  EXPECT_EQ(archive->file_metadata(), FileMetadata({{"epoch", "3"}}));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor turned, archive->ReadWithMetadata("turned"));
  EXPECT_EQ(turned.metadata, metadata);
  EXPECT_EQ(turned.view.stride(0), 1);
  EXPECT_EQ(turned.view.stride(1), 3);
  EXPECT_EQ(turned.view.Contiguous()->bytes(), TensorView(grid).Transpose(0, 1)->Contiguous()->bytes());
  EXPECT_EQ(archive->ReadWithMetadata("text")->metadata, of_text);
  ASSERT_OK_AND_ASSIGN(const Tensor twice, archive->Read("twice"));
  const Tensor wanted = Tensor::FromValues<float>({{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}});
  EXPECT_EQ(TensorView(twice).bytes(), TensorView(wanted).bytes());

  TensorMetadata wrong;
  wrong.requires_grad = true;
  EXPECT_THAT(PushTensors(AddressOf(*server_), 3, {{"w", Number(1), wrong}}, {}),
              StatusIs(Code::kInvalidArgument, HasSubstr("requires_grad is for floating")));
}

TEST_F(PushTest, IsRefusedUnlessItIsAccepted) {
  options_.accept_pushes = false;
  Serve();
  EXPECT_THAT(PushTensors(AddressOf(*server_), 2, {{"w", Number(2)}}, {}),
              StatusIs(Code::kPermissionDenied, HasSubstr("accepts no pushes")));
  EXPECT_THAT(PushTensors(AddressOf(*server_) + "/a", 2, {}, {}), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(PushTensors("grpc://127.0.0.1:1", 2, {{"w", Number(2)}}, {}), StatusIs(Code::kUnavailable));
  EXPECT_EQ(step(), 1);
}

TEST_F(PushTest, IsRefusedPastALimit) {
  options_.push_limits.max_file_decoded_bytes = 7;
  options_.push_limits.max_entries = 2;
  Serve();
  EXPECT_THAT(PushTensors(AddressOf(*server_), 2, {{"a", Number(1)}, {"b", Number(2)}}, {}),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 7")));
  const Tensor empty = *Tensor::Create(DType::kFloat32, TensorShape({0}));
  EXPECT_THAT(PushTensors(AddressOf(*server_), 2, {{"a", empty}, {"b", empty}, {"c", empty}}, {}),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_entries is 2")));
  EXPECT_EQ(step(), 1);
}

// Strings come as messages: their bytes count, and the memory that they take.
TEST_F(PushTest, OfStringsIsRefusedPastALimit) {
  options_.push_limits.max_file_decoded_bytes = 400;
  Serve();
  const Tensor ten = *Tensor::Create(DType::kString, TensorShape({10}));
  ASSERT_OK(PushTensors(AddressOf(*server_), 2, {{"a", ten}}, {}));
  EXPECT_THAT(PushTensors(AddressOf(*server_), 3, {{"a", ten}, {"b", ten}}, {}),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 400")));
  const Tensor one = Tensor::FromValues<std::string>({std::string(500, 'x')});
  EXPECT_THAT(PushTensors(AddressOf(*server_), 3, {{"a", one}}, {}),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 400")));
  EXPECT_EQ(step(), 2);
}

// One string that fills a shape: many tensors of few bytes.
TEST_F(PushTest, OfStringsThatFillShapesIsRefusedPastALimit) {
  constexpr int64_t kElements = 10000;  // of 32 bytes and more
  options_.push_limits.max_memory_beyond_input = 1'000'000;
  Serve();
  TensorProto tensor;
  tensor.set_dtype(DataType::DT_STRING);
  tensor.mutable_tensor_shape()->add_dim()->set_size(kElements);
  tensor.add_string_val("x");
  const std::string message = tensor.SerializeAsString();
  v1::PushHeader header;
  std::vector<v1::Piece> pieces;
  const auto add = [&] {
    v1::PushedTensor* const pushed = header.add_tensors();
    pushed->set_name(absl::StrCat("t", pieces.size()));
    pushed->set_dtype(DataType::DT_STRING);
    *pushed->mutable_shape() = tensor.tensor_shape();
    pushed->set_as_message(true);
    pieces.push_back(PieceOf(static_cast<uint32_t>(pieces.size() + 1), message, message.size()));
  };
  add();
  const grpc::Status one = Push(header, pieces);
  EXPECT_TRUE(one.ok()) << one.error_message();
  for (int i = 0; i < 3; ++i) add();
  const grpc::Status four = Push(header, pieces);
  EXPECT_EQ(four.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(four.error_message(), HasSubstr("max_memory_beyond_input is 1000000"));
}

// What no client of ours sends leaves the old version.
TEST_F(PushTest, LeavesTheOldVersionIfItBreaks) {
  Serve();
  const auto stub =
      v1::TensorExchange::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  v1::PushHeader header;
  header.set_step(2);
  header.add_tensors()->set_name("w");
  header.mutable_tensors(0)->set_dtype(DataType::DT_INT32);
  header.mutable_tensors(0)->mutable_shape()->add_dim()->set_size(1);
  const auto piece = PieceOf;
  const auto push = [&](const v1::PushHeader& head, const std::vector<v1::Piece>& pieces) {
    return Push(head, pieces);
  };
  const std::string number(4, '\2');
  EXPECT_EQ(push(header, {}).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(push(header, {piece(2, number, 0)}).error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(push(header, {piece(1, "12345", 0)}).error_code(), grpc::StatusCode::DATA_LOSS);
  v1::Piece wrong = piece(1, number, 0);
  wrong.set_crc32c(0);
  EXPECT_EQ(push(header, {wrong}).error_code(), grpc::StatusCode::DATA_LOSS);
  v1::PushHeader twice = header;
  *twice.add_tensors() = header.tensors(0);
  EXPECT_EQ(push(twice, {piece(1, number, 0), piece(2, number, 0)}).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  v1::PushHeader huge = header;
  huge.mutable_tensors(0)->mutable_shape()->mutable_dim(0)->set_size(int64_t{1} << 50);
  EXPECT_EQ(push(huge, {}).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::PushHeader as_message = header;
  as_message.mutable_tensors(0)->set_as_message(true);
  EXPECT_EQ(push(as_message, {}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::PushHeader strided = header;
  strided.mutable_tensors(0)->add_strides(1);
  strided.mutable_tensors(0)->add_strides(1);
  EXPECT_EQ(push(strided, {}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::PushHeader far = header;
  far.mutable_tensors(0)->mutable_shape()->mutable_dim(0)->set_size(3);
  far.mutable_tensors(0)->add_strides(INT64_MIN);
  EXPECT_EQ(push(far, {}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::PushHeader no_metadata = header;
  no_metadata.mutable_tensors(0)->set_metadata("no message");
  EXPECT_EQ(push(no_metadata, {}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::PushHeader no_file_metadata = header;
  no_file_metadata.set_file_metadata("no message");
  EXPECT_EQ(push(no_file_metadata, {}).error_code(), grpc::StatusCode::DATA_LOSS);
  {
    grpc::ClientContext context;
    v1::PushResponse response;
    const auto writer = stub->Push(&context, &response);
    const std::string bytes = header.SerializeAsString();
    writer->Write(piece(0, bytes, bytes.size()));
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(step(), 1);
  EXPECT_TRUE(push(header, {piece(1, number, 0)}).ok());
  EXPECT_EQ(step(), 2);
  for (int i = 0; i < 1000 && server_->stats().num_streams != 0; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(server_->stats().num_streams, 0);
}

TEST_F(PushTest, IsUnimplementedForFiles) {
  class Fixed final : public TensorSource {
   public:
    explicit Fixed(TensorSource* other) : other_(other) {}
    absl::StatusOr<TensorSnapshot> Current() override { return other_->Current(); }
    absl::StatusOr<TensorSnapshot> WaitForNewer(const TensorVersion& version, Deadline deadline) override {
      return other_->WaitForNewer(version, deadline);
    }

   private:
    TensorSource* other_;
  };
  Fixed fixed(&live_);
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(&fixed, options_));
  EXPECT_THAT(PushTensors(AddressOf(*server), 2, {{"w", Number(2)}}, {}), StatusIs(Code::kUnimplemented));
}

class FollowFolderTest : public ::testing::Test {
 protected:
  void Save(CheckpointManager& manager, int64_t step) {
    ASSERT_OK(manager.Save(
        step, [&](CheckpointWriter& writer) { return writer.Add("w", Number(static_cast<int32_t>(step))); }));
  }
  std::unique_ptr<TensorSource> Follow(FollowFolderOptions options) {
    options.interval = absl::ZeroDuration();
    return FollowFolder(
        folder_.path(), [this](const std::string& prefix) { return OpenArchive(prefix, {&format_}); }, options);
  }

  const CheckpointArchiveFormat format_;
  const TempFolder folder_;
};

TEST_F(FollowFolderTest, ServesTheNewestWholeStep) {
  const std::unique_ptr<TensorSource> source = Follow({});
  EXPECT_THAT(source->Current(), StatusIs(Code::kUnavailable, HasSubstr("has no whole step yet")));
  CheckpointManagerOptions keep;
  keep.keep_last = 2;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(folder_.path(), keep));
  Save(manager, 1);
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(source.get(), {}));
  ASSERT_OK_AND_ASSIGN(const auto archive, RemoteArchive::Open(AddressOf(*server), {}));
  EXPECT_EQ(archive->version().step, 1);
  EXPECT_EQ(NumberOf(archive->Read("w")), 1);

  Save(manager, 2);
  ASSERT_OK_AND_ASSIGN(const TensorVersion newer, archive->WaitForNewer(absl::Minutes(1)));
  EXPECT_EQ(newer.step, 2);
  ASSERT_OK(archive->Refresh());
  EXPECT_EQ(NumberOf(archive->Read("w")), 2);

  std::filesystem::resize_file(manager.PrefixOf(2) + ".index", 10);  // damaged: step 1 is the newest whole one
  ASSERT_OK(archive->WaitForNewer(absl::Minutes(1)));
  ASSERT_OK(archive->Refresh());
  EXPECT_EQ(NumberOf(archive->Read("w")), 1);
}

// The run removes the step that is served.
TEST_F(FollowFolderTest, KeepsAStepInMemory) {
  FollowFolderOptions options;
  options.in_memory = true;
  CheckpointManagerOptions keep;
  keep.keep_last = 1;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(folder_.path(), keep));
  Save(manager, 1);
  const std::unique_ptr<TensorSource> source = Follow(options);
  ASSERT_OK_AND_ASSIGN(const TensorSnapshot one, source->Current());
  Save(manager, 2);
  ASSERT_OK_AND_ASSIGN(const TensorSnapshot two, source->Current());
  EXPECT_EQ(two.version.step, 2);
  EXPECT_EQ(NumberOf(one.tensors->Read("w")), 1);
  EXPECT_EQ(NumberOf(two.tensors->Read("w")), 2);
}

// A step of many GB takes longer than a client waits.
TEST_F(FollowFolderTest, ServesTheStepBeforeWhileAStepIsRead) {
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(folder_.path()));
  Save(manager, 1);
  std::atomic<bool> holds{false};
  FollowFolderOptions options;
  options.interval = absl::ZeroDuration();
  const std::unique_ptr<TensorSource> source = FollowFolder(
      folder_.path(),
      [&](const std::string& prefix) {
        for (int i = 0; i < 10000 && holds; ++i) absl::SleepFor(absl::Milliseconds(1));
        return OpenArchive(prefix, {&format_});
      },
      options);
  ASSERT_OK_AND_ASSIGN(const TensorSnapshot one, source->Current());
  EXPECT_EQ(one.version.step, 1);
  Save(manager, 2);
  holds = true;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK_AND_ASSIGN(const TensorSnapshot still, source->Current());
    EXPECT_EQ(still.version, one.version);
  }
  EXPECT_LT(absl::Now() - begin, absl::Seconds(8));
  holds = false;
  ASSERT_OK_AND_ASSIGN(const TensorSnapshot two, source->WaitForNewer(one.version, absl::Minutes(1)));
  EXPECT_EQ(two.version.step, 2);
}

// A run that begins again saves the same numbers.
TEST_F(FollowFolderTest, ServesAStepThatIsSavedAgain) {
  const TempFolder again;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(folder_.path()));
  ASSERT_OK_AND_ASSIGN(CheckpointManager other, CheckpointManager::Open(again.path()));
  Save(manager, 1);
  ASSERT_OK(other.Save(1, [](CheckpointWriter& writer) { return writer.Add("w", Number(77)); }));
  const std::unique_ptr<TensorSource> source = Follow({});
  ASSERT_OK_AND_ASSIGN(const TensorSnapshot one, source->Current());
  EXPECT_EQ(NumberOf(one.tensors->Read("w")), 1);
  for (const char* const end : {".data-00000-of-00001", ".index"}) {
    std::filesystem::rename(other.PrefixOf(1) + end, manager.PrefixOf(1) + end);
  }
  ASSERT_OK_AND_ASSIGN(const TensorSnapshot two, source->Current());
  EXPECT_EQ(two.version.step, 1);
  EXPECT_NE(two.version, one.version);
  EXPECT_EQ(NumberOf(two.tensors->Read("w")), 77);
}

TEST_F(FollowFolderTest, ChecksAStepOnce) {
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(folder_.path()));
  Save(manager, 1);
  Save(manager, 2);
  {  // the newest one is damaged
    std::fstream data(manager.PrefixOf(2) + ".data-00000-of-00001", std::ios::in | std::ios::out);
    data.put('\x7f');
  }
  testing::FaultyFileSystem files(FileSystem::Posix());
  const auto reads = [&] {
    int count = 0;
    for (const auto& record : files.log()) {
      count += record.operation == testing::FileOperation::kReadAt && absl::StrContains(record.path, ".data-") ? 1 : 0;
    }
    return count;
  };
  FollowFolderOptions options;
  options.check = CheckStep::kEverything;
  options.file_system = &files;
  const std::unique_ptr<TensorSource> source = Follow(options);
  ASSERT_OK_AND_ASSIGN(const TensorSnapshot one, source->Current());
  EXPECT_EQ(one.version.step, 1);
  const int first = reads();
  EXPECT_GE(first, 2) << "each step was read";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(source->Current()->version, one.version);
  EXPECT_EQ(reads(), first);
}

// A run saves steps, and keeps only the newest; clients read all the time. Each request is answered, with the elements
// of the version that the client has, or with the news that there is another one.
TEST_F(FollowFolderTest, DropsNoRequest) {
  constexpr int kSteps = 12;
  FollowFolderOptions options;
  options.in_memory = true;
  CheckpointManagerOptions keep;
  keep.keep_last = 2;
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(folder_.path(), keep));
  Save(manager, 1);
  const std::unique_ptr<TensorSource> source = Follow(options);
  ASSERT_OK_AND_ASSIGN(const auto server, TensorServer::Start(source.get(), {}));
  std::atomic<int> wrong{0};
  std::atomic<int> read{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      auto archive = RemoteArchive::Open(AddressOf(*server), {});
      while (archive.ok() && (*archive)->version().step < kSteps) {
        const absl::StatusOr<Tensor> w = (*archive)->Read("w");
        const bool is_right = w.ok() && NumberOf(w) == (*archive)->version().step;
        if (!is_right && !absl::IsAborted(w.status())) ++wrong;
        if (is_right) ++read;
        if (!(*archive)->Refresh().ok()) ++wrong;
      }
      if (!archive.ok()) ++wrong;
    });
  }
  for (int step = 2; step <= kSteps; ++step) Save(manager, step);
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace tensorcask
