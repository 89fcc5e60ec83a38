// Servers and clients on this host: lists, pulls, slices, memory of any strides.

#include "tensorcask/serialize/rpc/remote_archive.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/formats/safetensors_format.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::StatusIs;
using testing::TempFolder;
using Code = absl::StatusCode;

Tensor Counting(const TensorShape& shape, float first = 0) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, shape);
  std::iota(tensor.mutable_data<float>(), tensor.mutable_data<float>() + tensor.num_elements(), first);
  return tensor;
}

std::vector<std::string> Names(const ArchiveReader& archive) {
  std::vector<std::string> names;
  for (const ArchiveEntry& entry : archive.entries()) names.push_back(entry.name);
  return names;
}

bool SameBytes(const TensorView& a, const TensorView& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() && a.Contiguous()->bytes() == b.Contiguous()->bytes();
}

class RemoteArchiveTest : public ::testing::Test {
 protected:
  void Serve(TensorSource* source, TensorServerOptions options = {}) {
    auto server = TensorServer::Start(source, std::move(options));
    ASSERT_OK(server);
    server_ = *std::move(server);
  }
  std::string Address(const std::string& name = "") const {
    return absl::StrCat("grpc://", server_->address(), name.empty() ? "" : "/", name);
  }
  std::unique_ptr<RemoteArchive> Open(const std::string& name = "", const RemoteOptions& options = {}) {
    auto archive = RemoteArchive::Open(Address(name), options);
    EXPECT_OK(archive);
    return archive.ok() ? *std::move(archive) : nullptr;
  }

  LiveTensors live_;
  std::unique_ptr<TensorServer> server_;
};

TEST_F(RemoteArchiveTest, ListsAndReadsLiveTensors) {
  const Tensor w = Counting(TensorShape({300, 1000}));  // 1.2 MB: two pieces
  const Tensor b = Tensor::FromValues<int8_t>({1, -2, 3});
  const Tensor empty = *Tensor::Create(DType::kFloat64, TensorShape({0, 7}));
  const Tensor flags = Tensor::FromValues<bool>({true, false, true});
  ASSERT_OK(live_.Publish(7, {{"w", w}, {"b", b}, {"empty", empty}, {"flags", flags}}));
  Serve(&live_);
  const auto archive = Open();
  ASSERT_NE(archive, nullptr);
  EXPECT_EQ(archive->version().step, 7);
  EXPECT_NE(archive->version().id, 0);
  EXPECT_EQ(archive->path(), Address());
  EXPECT_THAT(Names(*archive), ElementsAre("b", "empty", "flags", "w"));
  const std::pair<const char*, Tensor> tensors[] = {{"w", w}, {"b", b}, {"empty", empty}, {"flags", flags}};
  for (const auto& [name, tensor] : tensors) {
    ASSERT_OK_AND_ASSIGN(const Tensor read, archive->Read(name));
    EXPECT_TRUE(SameBytes(read, tensor)) << name;
  }
  EXPECT_THAT(archive->Read("x"), StatusIs(Code::kNotFound, HasSubstr("no tensor \"x\"")));
  EXPECT_EQ(server_->stats().sent_bytes, 1'200'000 + 3 + 3);
}

TEST_F(RemoteArchiveTest, ReadsStringsStridesAndMetadata) {
  const Tensor text = Tensor::FromValues<std::string>({{"a", ""}, {"long text", "b"}});
  const Tensor grid = Counting(TensorShape({20, 30}));
  const TensorView turned = *TensorView(grid).Transpose(0, 1);
  ASSERT_OK(live_.Publish(1, {{"text", text}, {"turned", turned}}));
  Serve(&live_);
  const auto archive = Open();
  ASSERT_NE(archive, nullptr);
  ASSERT_OK_AND_ASSIGN(const Tensor read_text, archive->Read("text"));
  EXPECT_EQ(read_text.data<std::string>()[2], "long text");
  ASSERT_OK_AND_ASSIGN(const Tensor row, archive->ReadSlice("text", *TensorSlice::Parse("1,1:-")));
  EXPECT_EQ(row.shape(), TensorShape({1, 2}));
  EXPECT_EQ(row.data<std::string>()[0], "long text");

  ASSERT_OK_AND_ASSIGN(const Tensor dense, archive->Read("turned"));
  EXPECT_TRUE(SameBytes(dense, turned));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor with_strides, archive->ReadWithMetadata("turned"));
  EXPECT_THAT(with_strides.view.strides(), ElementsAre(1, 30));
  EXPECT_TRUE(SameBytes(with_strides.view, turned));
}

// Tensors that are larger than what a server may spend on them.
TEST_F(RemoteArchiveTest, ReadsMetadataAloneAndKeepsStrides) {
  const Tensor grid = Counting(TensorShape({2000, 500}));  // 4 MB
  TensorMetadata metadata;
  metadata.name = "kernel";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.requires_grad = true;
  metadata.attributes["unit"] = "m/s";
  const TensorView turned = *TensorView(grid).Transpose(0, 1);
  const TensorView flipped = *TensorView(grid).Flip({0});
  const TensorView gaps = *TensorView(grid).Slice(1, 0, 500, 2)->Transpose(0, 1);
  TensorMetadata of_text;
  of_text.attributes["language"] = "en";
  ASSERT_OK(live_.Publish(1, {{"flipped", flipped, metadata},
                              {"gaps", gaps},
                              {"plain", grid, metadata},
                              {"scalar", Tensor::Scalar<float>(3), metadata},
                              {"text", Tensor::FromValues<std::string>({"a"}), of_text},
                              {"turned", turned, metadata}}));
  TensorServerOptions options;
  options.max_memory_bytes = (2 << 20) + 4096;  // two pieces, and the items of a request
  Serve(&live_, options);
  const auto archive = Open();
  ASSERT_NE(archive, nullptr);
  for (const char* const name : {"flipped", "plain", "scalar", "turned"}) {
    ASSERT_OK_AND_ASSIGN(const TensorMetadata alone, archive->Metadata(name));
    EXPECT_EQ(alone, metadata) << name;
  }
  EXPECT_EQ(*archive->Metadata("text"), of_text);
  EXPECT_EQ(*archive->Metadata("gaps"), TensorMetadata());
  EXPECT_LT(server_->stats().sent_bytes, 2000) << "metadata comes without elements";
  const std::pair<const char*, TensorView> views[] = {
      {"flipped", flipped}, {"gaps", gaps}, {"plain", grid}, {"turned", turned}};
  for (const auto& [name, view] : views) {
    ASSERT_OK_AND_ASSIGN(const DecodedTensor read, archive->ReadWithMetadata(name));
    EXPECT_TRUE(SameBytes(read.view, view)) << name;
    const bool has_gaps = name == std::string("gaps");
    EXPECT_EQ(read.metadata, has_gaps ? TensorMetadata() : metadata) << name;
    if (!has_gaps) {
      EXPECT_THAT(read.view.strides(), ElementsAreArray(view.strides())) << name;
    }
  }
  EXPECT_THAT(archive->ReadWithMetadata("gaps")->view.strides(), ElementsAre(1, 250));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor text, archive->ReadWithMetadata("text"));
  EXPECT_EQ(text.metadata, of_text);
}

// Blocks of any size come from few calls.
TEST_F(RemoteArchiveTest, ReadsBlocksFromFewCalls) {
  const Tensor w = Counting(TensorShape({3, 2500, 1000}));  // 30 MB: windows that divide the second axis
  ASSERT_OK(
      live_.Publish(1, {{"w", w}, {"empty", Counting(TensorShape({0, 3}))}, {"scalar", Tensor::Scalar<float>(3)}}));
  Serve(&live_);
  const auto archive = Open();
  ASSERT_NE(archive, nullptr);
  const uint64_t streams = server_->stats().total_streams;
  ASSERT_OK_AND_ASSIGN(const ArchiveEntry* const entry, archive->Find("w"));
  ASSERT_OK_AND_ASSIGN(const auto blocks, archive->ReadBlocks(*entry, 1 << 20));
  int64_t next = 0;
  while (true) {
    ASSERT_OK_AND_ASSIGN(const std::optional<TensorBlock> block, blocks->Next());
    if (!block.has_value()) break;
    ASSERT_OK_AND_ASSIGN(const TensorView wanted, TensorView(w).Slice(block->slice));
    EXPECT_LE(block->elements.bytes().size(), size_t{1} << 20);
    ASSERT_TRUE(SameBytes(block->elements, wanted)) << block->slice.ToString();
    ASSERT_EQ(block->elements.data<float>()[0], static_cast<float>(next)) << "in order";
    next += block->elements.num_elements();
  }
  EXPECT_EQ(next, w.num_elements());
  EXPECT_LE(server_->stats().total_streams - streams, 6);
  for (const char* const name : {"empty", "scalar"}) {
    ASSERT_OK_AND_ASSIGN(const ArchiveEntry* const small, archive->Find(name));
    ASSERT_OK_AND_ASSIGN(const auto few, archive->ReadBlocks(*small, 4));
    int64_t elements = 0;
    while (true) {
      ASSERT_OK_AND_ASSIGN(const std::optional<TensorBlock> block, few->Next());
      if (!block.has_value()) break;
      elements += block->elements.num_elements();
    }
    EXPECT_EQ(elements, small->shape.num_elements()) << name;
  }
}

TEST_F(RemoteArchiveTest, BringsTheMetadataOfTheFile) {
  ASSERT_OK(live_.Publish(1, {{"w", Counting(TensorShape({2}))}}, {{"epoch", "3"}, {"license", "MIT"}}));
  Serve(&live_);
  const auto archive = Open();
  ASSERT_NE(archive, nullptr);
  EXPECT_THAT(archive->file_metadata(), ElementsAre(Pair("epoch", "3"), Pair("license", "MIT")));
  EXPECT_THAT(archive->notes(), ElementsAre());
  ASSERT_OK(live_.Publish(2, {{"w", Counting(TensorShape({2}))}}));
  ASSERT_OK(archive->Refresh());
  EXPECT_THAT(archive->file_metadata(), ElementsAre());
}

// The keys of each have its name in front, as the tensors have.
TEST_F(RemoteArchiveTest, BringsTheMetadataOfSeveralFiles) {
  const TempFolder folder;
  const SafetensorsArchiveFormat format;
  std::vector<PrefixedArchive> archives;
  for (const std::string name : {"a", "b"}) {
    ArchiveWriterOptions options;
    options.file_metadata = {{"epoch", name + "-3"}};
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveWriter> writer, format.Create(folder.Path(name), options));
    const DecodedTensor w = {Counting(TensorShape({2})), {}};
    const ArchiveEntry entry = DescribeTensor("w", w);
    ASSERT_OK(writer->Declare(entry));
    ASSERT_OK(writer->Add(entry, w));
    ASSERT_OK(writer->Finish());
    ASSERT_OK_AND_ASSIGN(std::shared_ptr<const ArchiveReader> archive, format.Open(folder.Path(name), {}));
    archives.push_back({name + "/", std::move(archive)});
  }
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TensorSource> source, ServeArchives(std::move(archives)));
  Serve(source.get());
  const auto all = Open();
  const auto one = Open("b");
  ASSERT_NE(all, nullptr);
  ASSERT_NE(one, nullptr);
  EXPECT_THAT(all->file_metadata(), ElementsAre(Pair("a/epoch", "a-3"), Pair("a/format", "pt"), Pair("b/epoch", "b-3"),
                                                Pair("b/format", "pt")));
  EXPECT_THAT(one->file_metadata(), ElementsAre(Pair("epoch", "b-3"), Pair("format", "pt")));
  EXPECT_THAT(one->notes(), ElementsAre(HasSubstr("2 of the 4 metadata of the server are not below \"b/\"")));
}

// Several files may have one key, and each has types of its values.
TEST_F(RemoteArchiveTest, NamesMetadataThatCollidesAndKeepsTypes) {
  const TempFolder folder;
  const SafetensorsArchiveFormat format;
  const std::pair<const char*, FileMetadata> files[] = {
      {"a", {{"epoch", "3"}, {"note", "30"}, {"tensorcask.values", "value int epoch"}}},
      {"b", {{"epoch", "4"}, {"note", "30"}, {"tensorcask.values", "value int epoch\nvalue int note"}}},
      {"c", {{"rate", "0.5"}, {"tensorcask.values", "value float32 rate"}}}};
  std::vector<PrefixedArchive> archives;
  for (const auto& [name, metadata] : files) {
    ArchiveWriterOptions options;
    options.file_metadata = metadata;
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveWriter> writer, format.Create(folder.Path(name), options));
    const DecodedTensor w = {Counting(TensorShape({2})), {}};
    const ArchiveEntry entry = DescribeTensor(name, w);
    ASSERT_OK(writer->Declare(entry));
    ASSERT_OK(writer->Add(entry, w));
    ASSERT_OK(writer->Finish());
    ASSERT_OK_AND_ASSIGN(std::shared_ptr<const ArchiveReader> archive, format.Open(folder.Path(name), {}));
    archives.push_back({name == std::string("c") ? "old/" : "", std::move(archive)});
  }
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TensorSource> source, ServeArchives(std::move(archives)));
  Serve(source.get());
  const auto all = Open();
  ASSERT_NE(all, nullptr);
  FileMetadata metadata = all->file_metadata();
  EXPECT_EQ(metadata["epoch"], "3");
  EXPECT_EQ(metadata["tensorcask.values"], "value int epoch\nvalue float32 old/rate");
  EXPECT_THAT(all->notes(), ElementsAre(HasSubstr("/b: the metadata \"epoch\" is \"4\" and not served; that of an "
                                                  "earlier file, \"3\", is")));
  const auto old = Open("old");
  ASSERT_NE(old, nullptr);
  metadata = old->file_metadata();
  EXPECT_EQ(metadata["rate"], "0.5");
  EXPECT_EQ(metadata["tensorcask.values"], "value float32 rate");
}

// Slices of all kinds, from memory and from a file, whose tensors have more than one piece.
TEST_F(RemoteArchiveTest, ReadsSlicesFromMemoryAndFiles) {
  const Tensor w = Counting(TensorShape({3, 500, 700}));  // 4.2 MB
  const TempFolder folder;
  const std::string path = folder.Path("m.safetensors");
  const SafetensorsArchiveFormat format;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveWriter> writer, format.Create(path, {}));
  ArchiveEntry entry;
  entry.name = "w";
  entry.dtype = DType::kFloat32;
  entry.shape = w.shape();
  DecodedTensor tensor;
  tensor.view = TensorView(w);
  ASSERT_OK(writer->Add(entry, tensor));
  ASSERT_OK(writer->Finish());
  ASSERT_OK_AND_ASSIGN(std::shared_ptr<const ArchiveReader> file, OpenArchive(path, {&format}));
  const std::unique_ptr<TensorSource> of_file = ServeArchive(file);
  ASSERT_OK(live_.Publish(1, {{"w", w}}));
  for (TensorSource* const source : {static_cast<TensorSource*>(&live_), of_file.get()}) {
    Serve(source);
    const auto archive = Open();
    ASSERT_NE(archive, nullptr);
    ASSERT_OK_AND_ASSIGN(const Tensor whole, archive->Read("w"));
    EXPECT_TRUE(SameBytes(whole, w));
    for (const char* const text :
         {"-:-:-", "1,1:-:-", "0,3:10,400:-", "0,3:0,500:5,600", "2,1:499,1:699,1", "1,2:-:0,1"}) {
      const TensorSlice slice = *TensorSlice::Parse(text);
      ASSERT_OK_AND_ASSIGN(const Tensor part, archive->ReadSlice("w", slice));
      EXPECT_TRUE(SameBytes(part, *TensorView(w).Slice(slice))) << text;
    }
    EXPECT_THAT(archive->ReadSlice("w", *TensorSlice::Parse("3,1:-:-")), StatusIs(Code::kOutOfRange));
    EXPECT_THAT(archive->ReadSlice("w", *TensorSlice::Parse("-")), StatusIs(Code::kInvalidArgument));
    server_.reset();
  }
}

TEST_F(RemoteArchiveTest, PullsIntoStridedMemoryInOneStream) {
  const Tensor w = Counting(TensorShape({600, 1000}));
  const Tensor b = Counting(TensorShape({5}), 100);
  ASSERT_OK(live_.Publish(1, {{"w", w}, {"b", b}}));
  Serve(&live_);
  const auto archive = Open();
  ASSERT_NE(archive, nullptr);
  Tensor memory = *Tensor::Create(DType::kFloat32, TensorShape({1000, 1200}));
  TensorView columns = *TensorView(memory).Transpose(0, 1)->Slice(0, 600, 1200);  // [600,1000], strides [1,1200]
  Tensor wide = *Tensor::Create(DType::kFloat32, TensorShape({10}));
  TensorView every_second = *TensorView(wide).Slice(0, std::nullopt, std::nullopt, 2);
  Tensor some = *Tensor::Create(DType::kFloat32, TensorShape({2, 1000}));
  TensorView rows = some;
  ASSERT_OK(PullInto(
      archive.get(),
      {{"w", std::nullopt, &columns}, {"b", std::nullopt, &every_second}, {"w", *TensorSlice::Parse("17,2:-"), &rows}},
      {}));
  EXPECT_TRUE(SameBytes(columns, w));
  EXPECT_TRUE(SameBytes(every_second, b));
  EXPECT_TRUE(SameBytes(rows, *TensorView(w).Slice(0, 17, 19)));
  EXPECT_EQ(server_->stats().total_streams, 1);

  TensorView repeated = *TensorView(Tensor::FromValues<float>({1})).Expand({5});
  EXPECT_THAT(PullInto(archive.get(), {{"b", std::nullopt, &repeated}}, {}), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(PullInto(archive.get(), {{"b", std::nullopt, &rows}}, {}),
              StatusIs(Code::kInvalidArgument, HasSubstr("is float32 [5]; the memory for it is float32 [2,1000]")));
  EXPECT_THAT(PullInto(archive.get(), {{"c", std::nullopt, &rows}}, {}), StatusIs(Code::kNotFound));
  EXPECT_EQ(server_->stats().total_streams, 1);
}

TEST_F(RemoteArchiveTest, ServesWhatWasPublishedAlthoughTrainingGoesOn) {
  Tensor w = Counting(TensorShape({1000}));
  const Tensor before = *TensorView(w).Clone()->ToTensor();
  ASSERT_OK(live_.Publish(1, {{"w", w}}));
  Serve(&live_);
  const auto archive = Open();
  ASSERT_NE(archive, nullptr);
  w.mutable_data<float>()[0] = -1;
  EXPECT_TRUE(SameBytes(*archive->Read("w"), before));

  ASSERT_OK(live_.Publish(2, {{"w", w}}));
  const absl::Status replaced = archive->Read("w").status();
  EXPECT_THAT(replaced, StatusIs(Code::kAborted, HasSubstr("step 2")));
  EXPECT_TRUE(IsNewVersionOfServer(replaced));
  EXPECT_FALSE(IsNewVersionOfServer(absl::AbortedError("the target was replaced")));
  ASSERT_OK(archive->Refresh());
  EXPECT_EQ(archive->version().step, 2);
  EXPECT_TRUE(SameBytes(*archive->Read("w"), w));
  EXPECT_THAT(live_.Publish(3, {{"w", w}, {"w", w}}), StatusIs(Code::kAlreadyExists, HasSubstr("called \"w\"")));
  EXPECT_EQ(live_.Current()->version.step, 2);
}

TEST_F(RemoteArchiveTest, HasTheTensorsBelowAName) {
  const Tensor one = Tensor::FromValues<float>({1});
  ASSERT_OK(live_.Publish(1, {{"a/x", one}, {"a/y", one}, {"ab", one}, {"b/x", one}}));
  Serve(&live_);
  EXPECT_THAT(Names(*Open("a")), ElementsAre("x", "y"));
  EXPECT_OK(Open("a")->Read("y"));
  EXPECT_THAT(Names(*Open("a/")), ElementsAre("x", "y"));
  EXPECT_THAT(RemoteArchive::Open(Address("none"), {}),
              StatusIs(Code::kNotFound, HasSubstr("/none: the server has no tensor below \"none")));
  ASSERT_OK(live_.Publish(2, {}));
  EXPECT_THAT(Names(*Open()), ElementsAre());
}

TEST_F(RemoteArchiveTest, ListsManyTensorsInPages) {
  std::vector<NamedView> tensors;
  const Tensor one = Tensor::FromValues<float>({1});
  const std::string padding(1000, 'x');
  for (int i = 0; i < 3000; ++i) tensors.push_back({absl::StrCat("t", 10000 + i, padding), one});
  ASSERT_OK(live_.Publish(1, std::move(tensors)));
  Serve(&live_);
  const auto archive = Open();
  ASSERT_NE(archive, nullptr);
  EXPECT_EQ(archive->entries().size(), 3000);
  std::vector<Tensor> memory;
  std::vector<TensorView> views;
  for (const ArchiveEntry& entry : archive->entries()) memory.push_back(*Tensor::Create(entry.dtype, entry.shape));
  for (const Tensor& tensor : memory) views.emplace_back(tensor);
  std::vector<PullItem> items;
  for (size_t i = 0; i < views.size(); ++i) items.push_back({archive->entries()[i].name, std::nullopt, &views[i]});
  ASSERT_OK(PullInto(archive.get(), items, {}));  // more than one request
  EXPECT_GT(server_->stats().total_streams, 1);
  for (const TensorView& view : views) EXPECT_EQ(*view.data<float>(), 1);

  RemoteOptions options;
  options.limits.max_entries = 2999;
  EXPECT_THAT(RemoteArchive::Open(Address(), options), StatusIs(Code::kResourceExhausted, HasSubstr("max_entries")));
}

TEST_F(RemoteArchiveTest, OpensLikeAFile) {
  ASSERT_OK(live_.Publish(1, {{"w", Tensor::FromValues<float>({1, 2})}}));
  Serve(&live_);
  const RemoteArchiveFormat format(/*tls=*/false);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> archive, OpenArchive(Address(), {&format}));
  EXPECT_EQ(archive->format(), "grpc");
  ASSERT_OK_AND_ASSIGN(const TensorCounts counts, archive->VerifyAll([](const ArchiveDamage&) { FAIL(); }));
  EXPECT_EQ(counts.whole, 1);
}

TEST_F(RemoteArchiveTest, RefusesWhatIsNoAddress) {
  for (const char* const text :
       {"", "grpc://", "grpc://host", "grpc://host:", "grpc://:1", "grpc://host:x", "http://h:1", "grpc://host/a:1",
        "grpc://host:0", "grpc://host:65536", "grpc://host:000080"}) {
    EXPECT_THAT(RemoteArchive::Open(text, {}), StatusIs(Code::kInvalidArgument, HasSubstr("is not the address")))
        << text;
  }
}

TEST_F(RemoteArchiveTest, ServesOtherHostsOnlyIfThatIsSaid) {
  TensorServerOptions options;
  options.address = "0.0.0.0:0";
  EXPECT_THAT(TensorServer::Start(&live_, options), StatusIs(Code::kInvalidArgument, HasSubstr("no credentials")));
  options.insecure = true;
  EXPECT_OK(TensorServer::Start(&live_, options));
  options.address = "127.0.0.1";
  EXPECT_THAT(TensorServer::Start(&live_, options), StatusIs(Code::kInvalidArgument, HasSubstr("wanted HOST:PORT")));
  ASSERT_OK_AND_ASSIGN(const auto first, TensorServer::Start(&live_, {}));
  options.address = first->address();
  EXPECT_THAT(TensorServer::Start(&live_, options), StatusIs(Code::kUnavailable, HasSubstr("cannot listen")));
}

TEST_F(RemoteArchiveTest, LimitsWhatAServerSpends) {
  const Tensor grid = Counting(TensorShape({100, 100}));
  const TensorView turned = *TensorView(grid).Transpose(0, 1);
  const Tensor text = Tensor::FromValues<std::string>({std::string(3000, 'x')});
  ASSERT_OK(live_.Publish(1, {{"turned", turned}, {"grid", grid}, {"text", text}}));
  TensorServerOptions options;
  options.max_memory_bytes = 1000;
  Serve(&live_, options);
  const auto archive = Open();
  ASSERT_NE(archive, nullptr);
  EXPECT_OK(archive->Read("grid"));  // takes no memory
  EXPECT_THAT(archive->Read("turned"), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_bytes is 1000")));
  EXPECT_THAT(archive->Read("text"), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_bytes is 1000")));
  server_.reset();

  options = {};
  options.max_streams = 0;
  Serve(&live_, options);
  EXPECT_THAT(Open()->Read("grid"), StatusIs(Code::kResourceExhausted, HasSubstr("the limit max_streams is 0")));
  EXPECT_EQ(server_->stats().refused_streams, 1);
}

TEST_F(RemoteArchiveTest, LimitsWhatAClientSpends) {
  ASSERT_OK(live_.Publish(1, {{"w", Counting(TensorShape({100}))}, {"t", Tensor::FromValues<std::string>({"abc"})}}));
  Serve(&live_);
  RemoteOptions options;
  options.limits.max_file_decoded_bytes = 399;
  options.limits.max_message_bytes = 5;
  const auto archive = Open("", options);
  ASSERT_NE(archive, nullptr);
  EXPECT_THAT(archive->Read("w"), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 399")));
  EXPECT_THAT(archive->Read("t"), StatusIs(Code::kResourceExhausted, HasSubstr("max_message_bytes is 5")));
}

TEST_F(RemoteArchiveTest, SaysThatNothingIsPublished) {
  Serve(&live_);
  RemoteOptions options;
  options.pull.max_attempts = 2;
  options.pull.first_delay = absl::Milliseconds(1);
  EXPECT_THAT(RemoteArchive::Open(Address(), options), StatusIs(Code::kUnavailable, HasSubstr("no tensors have been")));
}

TEST_F(RemoteArchiveTest, DrainsBeforeItEnds) {
  ASSERT_OK(live_.Publish(1, {{"w", Counting(TensorShape({100}))}}));
  Serve(&live_);
  RemoteOptions options;
  options.pull.max_attempts = 1;
  const auto archive = Open("", options);
  ASSERT_NE(archive, nullptr);
  ASSERT_OK(archive->Read("w"));
  server_->Drain(absl::Seconds(10));
  EXPECT_THAT(archive->Read("w"), StatusIs(Code::kUnavailable));
  EXPECT_EQ(server_->stats().num_streams, 0);
}

}  // namespace
}  // namespace tensorcask
