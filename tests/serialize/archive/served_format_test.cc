// "unix:SOCKET" opens like a file: the tensors of a server that answers from files.

#include "tensorcask/serialize/archive/formats/served_format.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/formats/archive_service.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/server.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;
using testing::TempFolder;
using Code = absl::StatusCode;

// Runs a server until it is destroyed.
class Running {
 public:
  Running(const std::string& socket, Service* service)
      : server_(*Server::Listen(socket, service)), thread_([this] {
          while (!done_) server_->Run(absl::Milliseconds(20));
        }) {}
  ~Running() {
    done_ = true;
    thread_.join();
  }

 private:
  std::unique_ptr<Server> server_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

class ServedFormat : public ::testing::Test {
 protected:
  std::unique_ptr<ArchiveReader> Saved(const std::string& name) {
    const std::string path = folder_.Path(name);
    const ArchiveFormat* const format = *FormatForName(path, files_.list());
    const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, *format);
    for (const auto& [tensor_name, tensor] : tensors_) {
      const ArchiveEntry entry = DescribeTensor(tensor_name, {tensor, {}});
      EXPECT_OK(writer->Declare(entry));
    }
    for (const auto& [tensor_name, tensor] : tensors_) {
      EXPECT_OK(writer->Add(DescribeTensor(tensor_name, {tensor, {}}), {tensor, {}}));
    }
    EXPECT_OK(writer->Finish());
    return *OpenArchive(path, files_.list());
  }

  const TempFolder folder_{"/tmp/"};  // the path of a socket has at most 107 bytes
  const AllFormats files_;
  const ServedArchiveFormat served_;
  const std::string socket_ = folder_.Path("s");
  const std::string address_ = "unix:" + socket_;
  const std::vector<std::pair<std::string, Tensor>> tensors_ = {
      {"kernel", Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}})}, {"step", Tensor::Scalar<int64_t>(7)}};
};

TEST_F(ServedFormat, OpensLikeAFile) {
  std::vector<ArchiveService::Source> sources;
  sources.push_back({"a/", Saved("m.safetensors")});
  sources.push_back({"b/", Saved("m.npz")});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveService> service, ArchiveService::Create(std::move(sources)));
  EXPECT_EQ(service->num_tensors(), 4);
  const Running server(socket_, service.get());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(address_, {&served_}));
  EXPECT_EQ(reader->format(), "served");
  EXPECT_EQ(reader->path(), address_);
  ASSERT_EQ(reader->entries().size(), 4);
  EXPECT_EQ(reader->entries()[2].name, "b/kernel");
  EXPECT_EQ(reader->entries()[2].shape, TensorShape({2, 3}));
  EXPECT_EQ(reader->entries()[2].stored_bytes, 24);
  ASSERT_OK_AND_ASSIGN(const Tensor kernel, reader->Read("b/kernel"));
  EXPECT_EQ(kernel.data<float>()[5], 6);
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader->ReadSlice("a/kernel", *TensorSlice::Parse("1,1:0,2")));
  EXPECT_EQ(part.shape(), TensorShape({1, 2}));
  EXPECT_EQ(part.data<float>()[1], 5);
  ASSERT_OK_AND_ASSIGN(const Tensor step, reader->Map("a/step"));
  EXPECT_EQ(*step.data<int64_t>(), 7);
  EXPECT_THAT(reader->Read("a/kernl"),
              StatusIs(Code::kNotFound, HasSubstr(address_ + ": no tensor \"a/kernl\"; did you mean \"a/kernel\"?")));
  EXPECT_THAT(reader->ReadSlice("a/kernel", *TensorSlice::Parse("9,1:-")),
              StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
}

TEST_F(ServedFormat, TellsWhatEncodedTensorsDecodeTo) {
  const std::string path = folder_.Path("encoded");
  ArchiveWriterOptions options;
  options.level = PayloadLevel::kDefault;
  const Tensor zeros = *Tensor::Zeros(DType::kFloat32, TensorShape({100000}));
  ASSERT_OK(SaveTensors(path, **FindFormat("checkpoint", files_.list()), {{"w", zeros, {}}}, options).status());
  std::vector<ArchiveService::Source> sources;
  sources.push_back({"", *OpenArchive(path, files_.list())});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveService> service, ArchiveService::Create(std::move(sources)));
  const Running server(socket_, service.get());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(address_, {&served_}));
  ASSERT_EQ(reader->entries().size(), 1);
  EXPECT_EQ(reader->entries()[0].decoded_bytes, 400000);
  EXPECT_LT(reader->entries()[0].stored_bytes, 1000);
}

TEST_F(ServedFormat, TellsWhatIsNotServed) {
  const std::string path = folder_.Path("m.safetensors");
  ArchiveWriterOptions options;
  options.file_metadata = {{"epoch", "3"}, {"format", "pt"}};  // the note of a framework counts as nothing
  ASSERT_OK(
      SaveTensors(path, **FindFormat("safetensors", files_.list()), {{"w", tensors_[0].second, {}}}, options).status());
  std::vector<ArchiveService::Source> sources;
  sources.push_back({"", *OpenArchive(path, files_.list())});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveService> service, ArchiveService::Create(std::move(sources)));
  const Running server(socket_, service.get());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(address_, {&served_}));
  EXPECT_THAT(reader->notes(), ElementsAre("not served: " + path +
                                           ": the file has metadata (\"epoch\"), which a records "
                                           "file cannot hold"));
  EXPECT_EQ(reader->notes(), service->notes());
}

TEST_F(ServedFormat, NamesAHundredTensorsThatCannotBeRead) {
  const std::string path = folder_.Path("cut");
  std::vector<TensorToSave> tensors;
  for (int i = 0; i < 103; ++i) tensors.push_back({absl::StrCat("w", i), tensors_[0].second, {}});
  ASSERT_OK(SaveTensors(path, **FindFormat("checkpoint", files_.list()), tensors, {}).status());
  ASSERT_OK(RemoveFile(path + ".data-00000-of-00001", FileSystem::Posix()));
  std::vector<ArchiveService::Source> sources;
  sources.push_back({"", *OpenArchive(path, files_.list())});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveService> service, ArchiveService::Create(std::move(sources)));
  EXPECT_EQ(service->num_tensors(), 0);
  ASSERT_EQ(service->notes().size(), 101);
  EXPECT_EQ(service->notes().back(), "not served: " + path + ": 3 more tensors that cannot be read");
}

// One note that is repeated, as a view may, is charged each time.
class Repeats final : public Service {
 public:
  Message Answer(const Message& /*request*/) override {
    const Tensor none = *Tensor::Create(DType::kString, TensorShape({0}));
    Message reply;
    reply.tensors = {{Tensor::Scalar<int64_t>(1), {}},
                     {none, {}},
                     {none, {}},
                     {*Tensor::Create(DType::kInt64, TensorShape({0, 5})), {}},
                     {*Tensor::Create(DType::kInt64, TensorShape({0})), {}},
                     {*Tensor::Create(DType::kString, TensorShape({1 << 20})), {}}};
    return reply;
  }
};

TEST_F(ServedFormat, NotesAreChargedToTheBudget) {
  Repeats repeats;
  const Running server(socket_, &repeats);
  DecodeLimits limits;
  limits.max_memory_beyond_input = 16 << 20;
  ArchiveReaderOptions options;
  options.listing = std::make_shared<ListingBudget>(limits);
  EXPECT_THAT(OpenArchive(address_, {&served_}, options), StatusIs(Code::kResourceExhausted, HasSubstr(address_)));
}

TEST_F(ServedFormat, IsLinkedAndUsedOnlyOnRequest) {
  EXPECT_THAT(OpenArchive(address_, files_.list()), StatusIs(Code::kNotFound, Not(HasSubstr("serve"))));
  std::vector<const ArchiveFormat*> all(files_.list().begin(), files_.list().end());
  all.push_back(&served_);
  EXPECT_OK(OpenArchive(Saved("m.npz")->path(), all).status());
  EXPECT_THAT(OpenArchive(folder_.path() + "/none", all), StatusIs(Code::kNotFound, Not(HasSubstr("serve"))));
  // A server is only opened by its address. Neither --format nor the name of a new file chooses this format.
  EXPECT_THAT(FindFormat("served", all), StatusIs(Code::kInvalidArgument, Not(HasSubstr("npz, served"))));
  EXPECT_THAT(FormatForName("unix:x.npz", all),
              StatusIs(Code::kInvalidArgument, HasSubstr("a server at unix: is only read")));
  EXPECT_THAT(CreateArchive(address_, served_), StatusIs(Code::kUnimplemented, HasSubstr("served")));
}

TEST_F(ServedFormat, SaysThatNothingListens) {
  EXPECT_THAT(OpenArchive(address_, {&served_}),
              StatusIs(Code::kNotFound,
                       HasSubstr("no `tensorcask serve` waits at this socket: start it first with --unix " + socket_)));
}

TEST_F(ServedFormat, TwoTensorsOfOneNameAreNotServed) {
  std::vector<ArchiveService::Source> sources;
  for (const char* name : {"m.safetensors", "m.npz"}) sources.push_back({"", Saved(name)});
  EXPECT_THAT(ArchiveService::Create(std::move(sources)),
              StatusIs(Code::kAlreadyExists, HasSubstr("two tensors are called \"kernel\"")));
}

// Says that it has another version.
class Newer final : public Service {
 public:
  Message Answer(const Message& /*request*/) override {
    Message reply;
    reply.tensors.push_back({Tensor::Scalar<int64_t>(2), {}});
    return reply;
  }
};

TEST_F(ServedFormat, AServerOfAnotherVersionIsRefused) {
  Newer newer;
  const Running server(socket_, &newer);
  EXPECT_THAT(
      OpenArchive(address_, {&served_}),
      StatusIs(Code::kUnimplemented, HasSubstr(address_ + ": the server's list: the server speaks version 2 of the "
                                                          "protocol of served tensors, this client version 1")));
}

TEST_F(ServedFormat, TheListIsChargedToTheBudget) {
  std::vector<ArchiveService::Source> sources;
  sources.push_back({"", Saved("m.npz")});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveService> service, ArchiveService::Create(std::move(sources)));
  const Running server(socket_, service.get());
  DecodeLimits limits;
  limits.max_memory_beyond_input = 0;
  ArchiveReaderOptions options;
  options.listing = std::make_shared<ListingBudget>(limits, /*bytes_per_index_byte=*/1);
  EXPECT_THAT(OpenArchive(address_, {&served_}, options), StatusIs(Code::kResourceExhausted, HasSubstr(address_)));
}

}  // namespace
}  // namespace tensorcask
