// Encoded tensors in checkpoints: what is encoded and how, and that it comes back.

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/checkpoint/salvage.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/checkpoint/writer.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/forwarding_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::ForwardingFileSystem;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Fill = std::function<absl::Status(CheckpointWriter&)>;

constexpr char kData[] = "/m.data-00000-of-00001";

// Weights as they are: exponents that hardly differ, mantissas that do. No two seeds give the same.
Tensor Weights(std::initializer_list<int64_t> dims, uint32_t seed) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape(dims));
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : tensor.mutable_flat<float>()) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) / (1 << 24) - 0.5f) * 0.1f;
  }
  return tensor;
}

// The same some steps of training later.
Tensor Trained(const Tensor& weights) {
  Tensor tensor = *weights.Clone();
  uint32_t i = 0;
  for (float& value : tensor.mutable_flat<float>()) {
    if (i++ % 8 == 0) value *= 1.0f + 1e-6f;
  }
  return tensor;
}

CheckpointWriterOptions At(PayloadLevel level) {
  CheckpointWriterOptions options;
  options.payload.level = level;
  return options;
}

void SaveIn(FileSystem* files, const std::string& prefix, CheckpointWriterOptions options, const Fill& fill) {
  options.file_system = files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
  ASSERT_OK(fill(writer));
  if (!options.background) {
    ASSERT_OK(writer.Finish());
    return;
  }
  ASSERT_OK_AND_ASSIGN(BackgroundSave save, writer.FinishInBackground());
  ASSERT_OK(save.Wait());
}

absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, const std::string& prefix = "/m",
                                        CheckpointReaderOptions options = {}) {
  options.read.file_system = files;
  return CheckpointReader::Open(prefix, options);
}

std::shared_ptr<const CheckpointReader> Shared(absl::StatusOr<CheckpointReader> reader) {
  EXPECT_OK(reader.status());
  return std::make_shared<const CheckpointReader>(*std::move(reader));
}

std::vector<std::string> Damages(const CheckpointReader& reader, int64_t whole, int64_t without_base = 0) {
  std::vector<std::string> found;
  const absl::StatusOr<CheckpointCensus> census =
      reader.VerifyAll([&](const CheckpointDamage& damage) { found.push_back(std::string(damage.status.message())); });
  EXPECT_OK(census.status());
  EXPECT_EQ(census->whole, whole);
  EXPECT_EQ(census->not_checked, 0);
  EXPECT_EQ(census->without_base, without_base);
  EXPECT_THAT(census->notes, ElementsAre());
  return found;
}

// A value of an index, as protobuf's own classes have it.
template <typename Proto>
Proto InIndex(const MemoryFileSystem& files, const std::string& prefix, const std::string& key) {
  const std::string index = BytesOf(files, prefix + ".index");
  Proto proto;
  const auto table = checkpoint::TableReader::Open(MakeMemorySource("index", index), {});
  EXPECT_OK(table.status());
  const auto value = (*table)->Find(key);
  EXPECT_TRUE(value.ok() && value->has_value() && proto.ParseFromString(std::string(**value)));
  return proto;
}

void ExpectReads(const CheckpointReader& reader, const std::string& name, const Tensor& wanted) {
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(name));
  EXPECT_TRUE(SameTensor(read, wanted));
  ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map(name));
  EXPECT_TRUE(SameTensor(mapped, wanted));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor with_metadata, reader.ReadWithMetadata(name));
  EXPECT_TRUE(SameTensor(*with_metadata.view.ToTensor(), wanted));
  // Into memory of other strides.
  const int64_t rows = wanted.dim(0), columns = wanted.dim(1);
  ASSERT_OK_AND_ASSIGN(const Tensor turned, Tensor::Create(wanted.dtype(), TensorShape({columns, rows})));
  ASSERT_OK_AND_ASSIGN(TensorView out, TensorView(turned).Transpose(0, 1));
  ASSERT_OK(reader.ReadInto(name, &out));
  EXPECT_TRUE(SameTensor(*out.ToTensor(), wanted));
  const TensorSlice slice = *TensorSlice::Parse(absl::StrCat(rows / 3, ",", rows / 2, ":1,2"));
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice(name, slice));
  EXPECT_TRUE(SameTensor(part, *TensorView(wanted).Slice(slice)->ToTensor()));
  ASSERT_OK_AND_ASSIGN(const Tensor verified, reader.ReadSlice(name, slice, /*verify_whole=*/true));
  EXPECT_TRUE(SameTensor(verified, part));
}

TEST(Encoded, EveryDtypeComesBack) {
  for (const PayloadLevel level : {PayloadLevel::kDefault, PayloadLevel::kHigh}) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (int number = 1; number < 80; ++number) {
      const std::optional<DType> dtype = DTypeFromNumber(number);
      if (!dtype.has_value() || !IsFixedSize(*dtype)) continue;
      Tensor tensor = *Tensor::Create(*dtype, TensorShape({300, 5}));
      const absl::Span<char> bytes = tensor.mutable_bytes();
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = i % 7 == 0 ? 1 : 0;
      tensors.emplace_back(std::string(DTypeName(*dtype)), tensor);
    }
    Tensor strings = *Tensor::Create(DType::kString, TensorShape({300, 5}));
    for (int i = 0; i < 1500; ++i)
      strings.mutable_flat<std::string>()(i) = std::string(i % 40, static_cast<char>('a' + i % 3));
    tensors.emplace_back("string", strings);
    MemoryFileSystem files;
    SaveIn(&files, "/m", At(level), [&](CheckpointWriter& writer) {
      for (const auto& [name, tensor] : tensors) CASK_RETURN_IF_ERROR(writer.Add(name, tensor));
      return absl::OkStatus();
    });
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
    for (const auto& [name, tensor] : tensors) {
      SCOPED_TRACE(name);
      ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find(name));
      EXPECT_EQ(entry.form, EntryForm::kEncoded);
      EXPECT_EQ(entry.dtype, tensor.dtype());
      ASSERT_NE(entry.payload, nullptr);
      EXPECT_EQ(entry.payload->level, static_cast<uint8_t>(level));
      EXPECT_FALSE(entry.payload->is_delta);
      ExpectReads(reader, name, tensor);
    }
    ASSERT_OK_AND_ASSIGN(const auto all, reader.ReadAll(2));
    EXPECT_EQ(all.size(), tensors.size());
    EXPECT_THAT(Damages(reader, static_cast<int64_t>(tensors.size())), ElementsAre());
  }
}

TEST(Encoded, EntryAndBytes) {
  MemoryFileSystem files;
  const Tensor weights = Weights({100, 100}, 1);
  AddOptions add;
  add.metadata.name = "kernel";
  SaveIn(&files, "/m", At(PayloadLevel::kDefault), [&](CheckpointWriter& writer) {
    CASK_RETURN_IF_ERROR(writer.Add("scalar", Tensor::Scalar<float>(1)));
    return writer.Add("w", weights, add);
  });
  EXPECT_EQ(InIndex<BundleHeaderProto>(files, "/m", "").version().min_consumer(), 2);
  const auto scalar = InIndex<BundleEntryProto>(files, "/m", "scalar");
  EXPECT_EQ(scalar.dtype(), 1);
  EXPECT_FALSE(scalar.has_extension());
  const auto entry = InIndex<BundleEntryProto>(files, "/m", "w");
  EXPECT_EQ(entry.dtype(), 0);
  EXPECT_EQ(entry.offset(), 64);
  EXPECT_LT(entry.size(), 40000 * 0.98);
  EXPECT_EQ(entry.extension().dtype(), 1);
  EXPECT_EQ(entry.extension().name(), "kernel");
  const std::string stored = BytesOf(files, kData).substr(entry.offset(), entry.size());
  EXPECT_EQ(entry.extension().payload(), stored.substr(0, kPayloadHeaderBytes));
  EXPECT_EQ(entry.crc32c(), MaskCrc32c(Crc32c(stored)));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor read, reader.ReadWithMetadata("w"));
  EXPECT_EQ(read.metadata.name, "kernel");
}

TEST(Encoded, LevelsByRuleNameAndCall) {
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  options.level_rules = {
      {"*/bias", PayloadLevel::kStored}, {"decoder/*", PayloadLevel::kHigh}, {"decoder/kept", PayloadLevel::kStored}};
  MemoryFileSystem files;
  AddOptions high;
  high.level = PayloadLevel::kHigh;
  SaveIn(&files, "/m", options, [&](CheckpointWriter& writer) {
    uint32_t seed = 0;
    for (const char* name : {"encoder/w", "encoder/bias", "decoder/w", "decoder/bias", "decoder/kept"}) {
      CASK_RETURN_IF_ERROR(writer.Add(name, Weights({64, 64}, ++seed)));
    }
    return writer.Add("told/bias", Weights({64, 64}, ++seed), high);
  });
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  std::vector<std::string> found;
  for (const CheckpointEntry& entry : entries) {
    found.push_back(absl::StrCat(entry.name, " ", EntryFormName(entry.form), " ",
                                 entry.payload == nullptr ? 0 : entry.payload->level));
  }
  EXPECT_THAT(found, ElementsAre("decoder/bias plain 0", "decoder/kept encoded 2", "decoder/w encoded 2",
                                 "encoder/bias plain 0", "encoder/w encoded 1", "told/bias encoded 2"));
}

TEST(Encoded, OptionsThatCannotBe) {
  MemoryFileSystem files;
  CheckpointWriterOptions options;
  options.file_system = &files;
  options.payload.chunk_bytes = 100000;
  EXPECT_THAT(CheckpointWriter::Create("/m", options), StatusIs(Code::kInvalidArgument, HasSubstr("chunk_bytes")));
  options.payload.chunk_bytes = 1 << 20;
  options.level_rules = {{"*", static_cast<PayloadLevel>(7)}};
  EXPECT_THAT(CheckpointWriter::Create("/m", options), StatusIs(Code::kInvalidArgument, HasSubstr("no level 7")));
  options.level_rules.clear();
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  AddOptions add;
  add.level = static_cast<PayloadLevel>(7);
  EXPECT_THAT(writer.Add("w", Weights({2}, 1), add), StatusIs(Code::kInvalidArgument, HasSubstr("no level 7")));
}

// What is not encoded, because it does not pay or has no such form, is as if no level had been asked for.
TEST(Encoded, OthersAreStoredAsWithout) {
  Tensor noise = *Tensor::Create(DType::kInt64, TensorShape({100, 100}));
  uint64_t state = 1;
  for (int64_t& value : noise.mutable_flat<int64_t>()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<int64_t>(state ^ (state >> 29));
  }
  const Fill fill = [&](CheckpointWriter& writer) {
    AddOptions preserve;
    preserve.layout = StoredLayout::kPreserve;
    CASK_RETURN_IF_ERROR(writer.Add("empty", *Tensor::Create(DType::kFloat32, TensorShape({0, 5}))));
    CASK_RETURN_IF_ERROR(writer.Add("noise", noise));
    CASK_RETURN_IF_ERROR(writer.Add("scalar", Tensor::Scalar<int32_t>(3)));
    CASK_RETURN_IF_ERROR(writer.Add("strings", Tensor::FromValues<std::string>({"a", "bcd", ""})));
    CASK_RETURN_IF_ERROR(writer.Add("turned", *TensorView(Weights({60, 70}, 1)).Transpose(0, 1), preserve));
    return writer.Add("variant", *Tensor::Create(DType::kVariant, TensorShape({2})));
  };
  MemoryFileSystem without, with;
  SaveIn(&without, "/m", {}, fill);
  SaveIn(&with, "/m", At(PayloadLevel::kHigh), fill);
  EXPECT_EQ(BytesOf(with, kData), BytesOf(without, kData));
  EXPECT_EQ(BytesOf(with, "/m.index"), BytesOf(without, "/m.index"));
}

TEST(Encoded, BytesDependOnNoThreads) {
  const auto save = [](MemoryFileSystem* files, int num_threads, bool background) {
    CheckpointWriterOptions options = At(PayloadLevel::kDefault);
    options.payload.chunk_bytes = size_t{64} << 10;
    options.num_shards = 2;
    options.num_threads = num_threads;
    options.background = background;
    SaveIn(files, "/m", options, [](CheckpointWriter& writer) {
      for (int i = 0; i < 6; ++i) {
        AddOptions add;
        add.shard = i % 2;
        Tensor tensor = Weights({300, 500}, static_cast<uint32_t>(i / 3 * 3));  // some are the same
        CASK_RETURN_IF_ERROR(writer.Add(absl::StrCat("w", i), tensor, add));
        tensor.mutable_flat<float>()(0) = 7;  // it was taken as it was
      }
      return absl::OkStatus();
    });
  };
  MemoryFileSystem one;
  save(&one, 1, false);
  for (const auto& [num_threads, background] : {std::pair(2, false), std::pair(5, false), std::pair(4, true)}) {
    SCOPED_TRACE(absl::StrCat(num_threads, background ? " in the background" : ""));
    MemoryFileSystem many;
    save(&many, num_threads, background);
    ASSERT_EQ(many.Paths(), one.Paths());
    for (const std::string& path : one.Paths()) EXPECT_TRUE(BytesOf(many, path) == BytesOf(one, path)) << path;
  }
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&one));
  for (int i = 0; i < 6; ++i) {
    ExpectReads(reader, absl::StrCat("w", i), Weights({300, 500}, static_cast<uint32_t>(i / 3 * 3)));
  }
  CheckpointReaderOptions parallel;
  parallel.read.strategy = ReadStrategy::kParallel;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader threads, OpenIn(&one, "/m", parallel));
  ExpectReads(threads, "w0", Weights({300, 500}, 0));
}

// ---- Parts ----------------------------------------------------------------------------------------------------------

class CountingFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    const IoResult read = ForwardingFileSystem::ReadAt(handle, offset, out);
    if (read > 0) bytes += static_cast<uint64_t>(read);
    return read;
  }
  std::atomic<uint64_t> bytes{0};
};

TEST(Encoded, SlicesReadOnlyTheirChunks) {
  MemoryFileSystem files;
  const Tensor weights = Weights({4096, 256}, 1);  // 4 MiB in 64 chunks, each of 64 rows
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  options.payload.chunk_bytes = size_t{64} << 10;
  SaveIn(&files, "/m", options, [&](CheckpointWriter& writer) { return writer.Add("w", weights); });
  CountingFileSystem counting(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&counting));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find("w"));
  const TensorSlice rows = *TensorSlice::Parse("1000,64:-");  // of two chunks
  counting.bytes = 0;
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("w", rows));
  EXPECT_LT(counting.bytes, entry.stored_bytes / 16);
  EXPECT_TRUE(SameTensor(part, *TensorView(weights).Slice(rows)->ToTensor()));
  // Into a part of something larger.
  ASSERT_OK_AND_ASSIGN(const Tensor larger, Tensor::Create(DType::kFloat32, TensorShape({64, 300})));
  ASSERT_OK_AND_ASSIGN(TensorView out, TensorView(larger).Narrow(1, 20, 256));
  counting.bytes = 0;
  ASSERT_OK(reader.ReadSliceInto("w", rows, &out));
  EXPECT_LT(counting.bytes, entry.stored_bytes / 16);
  EXPECT_TRUE(SameTensor(*out.ToTensor(), part));
  EXPECT_THAT(reader.ReadSlice("w", *TensorSlice::Parse("4090,10:-")), StatusIs(Code::kOutOfRange, HasSubstr("\"w\"")));
}

TEST(Encoded, PiecesOfTensors) {
  MemoryFileSystem files;
  const Tensor weights = Weights({200, 100}, 1);
  SaveIn(&files, "/m", At(PayloadLevel::kDefault), [&](CheckpointWriter& writer) {
    for (const char* text : {"0,120:-", "120,80:-"}) {
      const TensorSlice slice = *TensorSlice::Parse(text);
      CASK_RETURN_IF_ERROR(writer.AddSlice("w", weights.shape(), slice, *TensorView(weights).Slice(slice)));
    }
    return absl::OkStatus();
  });
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find("w"));
  EXPECT_EQ(entry.form, EntryForm::kSliced);
  EXPECT_LT(entry.stored_bytes, 80000 * 0.98);
  ExpectReads(reader, "w", weights);
  EXPECT_THAT(Damages(reader, 1), ElementsAre());
  EXPECT_EQ(InIndex<BundleHeaderProto>(files, "/m", "").version().min_consumer(), 2);
}

// ---- Deltas ---------------------------------------------------------------------------------------------------------

class Deltas : public ::testing::Test {
 protected:
  void SetUp() override {
    SaveIn(&files_, "/base", {}, [&](CheckpointWriter& writer) {
      CASK_RETURN_IF_ERROR(writer.Add("other dtype", Tensor::FromValues<int32_t>({1, 2})));
      return writer.Add("w", first_);
    });
    CheckpointWriterOptions options = At(PayloadLevel::kDefault);
    options.payload.base = Shared(OpenIn(&files_, "/base"));
    SaveIn(&files_, "/m", options, [&](CheckpointWriter& writer) {
      CASK_RETURN_IF_ERROR(writer.Add("new", Weights({100, 100}, 9)));
      CASK_RETURN_IF_ERROR(writer.Add("other dtype", Weights({100, 100}, 10)));
      return writer.Add("w", second_);
    });
  }

  absl::StatusOr<CheckpointReader> WithBase(const std::string& prefix, const std::string& base) {
    CheckpointReaderOptions options;
    options.base = Shared(OpenIn(&files_, base));
    return OpenIn(&files_, prefix, options);
  }

  MemoryFileSystem files_;
  const Tensor first_ = Weights({200, 100}, 1);
  const Tensor second_ = Trained(first_);
};

TEST_F(Deltas, ComeBackWithTheirBase) {
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, WithBase("/m", "/base"));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find("w"));
  ASSERT_NE(entry.payload, nullptr);
  EXPECT_TRUE(entry.payload->is_delta);
  EXPECT_LT(entry.stored_bytes, 80000u / 4);
  for (const char* name : {"new", "other dtype"}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointEntry other, reader.Find(name));
    ASSERT_NE(other.payload, nullptr) << name;
    EXPECT_FALSE(other.payload->is_delta) << name;
  }
  ExpectReads(reader, "w", second_);
  ASSERT_OK_AND_ASSIGN(const auto all, reader.ReadAll(2));
  EXPECT_TRUE(SameTensor(all[2].tensor, second_));
}

TEST_F(Deltas, WithoutBaseAreNoWholeTensors) {
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_));
  EXPECT_THAT(Damages(reader, 2, /*without_base=*/1), ElementsAre());
  ASSERT_OK_AND_ASSIGN(const CheckpointReader with_base, WithBase("/m", "/base"));
  EXPECT_THAT(Damages(with_base, 3), ElementsAre());
  EXPECT_OK(reader.Read("new"));
  const auto refused = StatusIs(Code::kFailedPrecondition, ::testing::AllOf(HasSubstr(kData), HasSubstr("tensor \"w\""),
                                                                            HasSubstr("no base is given")));
  EXPECT_THAT(reader.Read("w"), refused);
  EXPECT_THAT(reader.Map("w"), refused);
  EXPECT_THAT(reader.ReadSlice("w", *TensorSlice::Parse("0,1:-")), refused);
  EXPECT_THAT(reader.ReadAll(), refused);
}

TEST_F(Deltas, OfAnotherBaseAreRefused) {
  const auto read = [&](const Fill& fill) {
    CheckpointWriterOptions options;
    options.overwrite = true;
    SaveIn(&files_, "/wrong", options, fill);
    absl::StatusOr<CheckpointReader> reader = WithBase("/m", "/wrong");
    if (!reader.ok()) return reader.status();
    absl::Status read = reader->Read("w").status();
    EXPECT_THAT(Damages(*reader, 2), ElementsAre(read.message()));
    return read;
  };
  EXPECT_THAT(read([](CheckpointWriter& writer) {
                return writer.Add("w", Weights({200, 100}, 2));
              }),
              StatusIs(Code::kFailedPrecondition, HasSubstr("hash")));
  EXPECT_THAT(read([](CheckpointWriter& writer) { return writer.Add("w", Weights({200}, 1)); }),
              StatusIs(Code::kFailedPrecondition, HasSubstr("float32 [200]; wanted are 20000 elements of float32")));
  EXPECT_THAT(read([](CheckpointWriter& writer) { return writer.Add("v", Weights({200}, 1)); }),
              StatusIs(Code::kFailedPrecondition, HasSubstr("/wrong, has no tensor of its name")));
}

TEST_F(Deltas, HaveADepthOfOne) {
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  CheckpointReaderOptions read;
  read.base = Shared(OpenIn(&files_, "/base"));
  options.payload.base = Shared(OpenIn(&files_, "/m", read));
  SaveIn(&files_, "/third", options, [&](CheckpointWriter& writer) {
    CASK_RETURN_IF_ERROR(writer.Add("new", Trained(Weights({100, 100}, 9))));
    return writer.Add("w", Trained(second_));
  });
  ASSERT_OK_AND_ASSIGN(const CheckpointReader third, WithBase("/third", "/m"));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, third.Find("w"));
  EXPECT_FALSE(entry.payload->is_delta);
  ExpectReads(third, "w", Trained(second_));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry fresh, third.Find("new"));
  EXPECT_TRUE(fresh.payload->is_delta);  // and its base is not a delta
  ExpectReads(third, "new", Trained(Weights({100, 100}, 9)));
  CheckpointReaderOptions with_deltas;
  with_deltas.base = options.payload.base;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_, "/m", with_deltas));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kFailedPrecondition, HasSubstr("and so is the tensor of its name")));
}

TEST_F(Deltas, BasesAreNotReplacedAndNotNeeded) {
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  options.file_system = &files_;
  options.payload.base = Shared(OpenIn(&files_, "/base"));
  options.overwrite = true;
  EXPECT_THAT(CheckpointWriter::Create("/base", options),
              StatusIs(Code::kInvalidArgument, HasSubstr("the base of what is to be saved")));
  // A damaged base costs size, not the save.
  std::string data = BytesOf(files_, "/base.data-00000-of-00001");
  data[1000] ^= 1;
  files_.Put("/base.data-00000-of-00001", data);
  options.payload.base = Shared(OpenIn(&files_, "/base"));
  SaveIn(&files_, "/m", options, [&](CheckpointWriter& writer) { return writer.Add("w", second_); });
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_));
  ExpectReads(reader, "w", second_);
}

TEST_F(Deltas, OfADamagedBaseNameIt) {
  std::string data = BytesOf(files_, "/base.data-00000-of-00001");
  data[1000] ^= 1;
  files_.Put("/base.data-00000-of-00001", data);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, WithBase("/m", "/base"));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kDataLoss, HasSubstr("/base.data-00000-of-00001")));
  EXPECT_THAT(Damages(reader, 2), ElementsAre(HasSubstr("/base.data-00000-of-00001")));
}

// ---- Equal tensors --------------------------------------------------------------------------------------------------

TEST(Encoded, EqualTensorsOfAShardAreStoredOnce) {
  MemoryFileSystem files;
  const Tensor weights = Weights({100, 100}, 1);
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  options.num_shards = 2;
  SaveIn(&files, "/m", options, [&](CheckpointWriter& writer) {
    AddOptions other_shard;
    other_shard.shard = 1;
    AddOptions high;
    high.level = PayloadLevel::kHigh;
    CASK_RETURN_IF_ERROR(writer.Add("a", weights));
    CASK_RETURN_IF_ERROR(writer.Add("bits", *weights.Bitcast(DType::kInt32, weights.shape())));
    CASK_RETURN_IF_ERROR(writer.Add("flat", *weights.Reshape(TensorShape({10000, 1}))));
    CASK_RETURN_IF_ERROR(writer.Add("high", weights, high));
    CASK_RETURN_IF_ERROR(writer.Add("shard 1", weights, other_shard));
    return writer.Add("turned", *TensorView(*TensorView(weights).Transpose(0, 1)->ToTensor()).Transpose(0, 1));
  });
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  std::vector<std::string> shared;
  for (const CheckpointEntry& entry : entries) {
    EXPECT_EQ(entry.form, EntryForm::kEncoded) << entry.name;
    if (entry.shard == 0 && entry.offset == 0) shared.push_back(entry.name);
  }
  EXPECT_THAT(shared, ElementsAre("a", "flat", "turned"));
  ExpectReads(reader, "a", weights);
  ExpectReads(reader, "turned", weights);
  ASSERT_OK_AND_ASSIGN(const Tensor flat, reader.Read("flat"));
  EXPECT_TRUE(SameTensor(flat, *weights.Reshape(TensorShape({10000, 1}))));
  EXPECT_THAT(Damages(reader, 6), ElementsAre());
}

// However many tensors share a payload, a reader with the limits that it has by default takes them.
TEST(Encoded, SharingHasItsLimit) {
  MemoryFileSystem files;
  const Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({100, 1000}));
  constexpr int kTensors = 40;
  SaveIn(&files, "/m", At(PayloadLevel::kDefault), [&](CheckpointWriter& writer) {
    for (int i = 0; i < kTensors; ++i) CASK_RETURN_IF_ERROR(writer.Add(absl::StrCat("zeros", i), tensor));
    return absl::OkStatus();
  });
  EXPECT_LT(BytesOf(files, kData).size(), kTensors * 512u);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  EXPECT_OK(reader.entries());
  ASSERT_OK_AND_ASSIGN(const auto all, reader.ReadAll());
  for (const auto& [name, read] : all) EXPECT_TRUE(SameTensor(read, tensor)) << name;
  EXPECT_THAT(Damages(reader, kTensors), ElementsAre());
}

// ---- Other doors ----------------------------------------------------------------------------------------------------

TEST_F(Deltas, AreMergedAsTheyStand) {
  SaveIn(&files_, "/plain", {}, [&](CheckpointWriter& writer) { return writer.Add("p", first_); });
  MergeOptions options;
  options.file_system = &files_;
  ASSERT_OK(MergeCheckpoints({"/plain", "/m"}, "/merged", options));
  EXPECT_EQ(InIndex<BundleHeaderProto>(files_, "/merged", "").version().min_consumer(), 2);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, WithBase("/merged", "/base"));
  EXPECT_THAT(Damages(reader, 4), ElementsAre());
  ExpectReads(reader, "w", second_);
  ExpectReads(reader, "new", Weights({100, 100}, 9));
  ExpectReads(reader, "p", first_);
}

TEST_F(Deltas, AreSalvagedWithTheirBase) {
  CheckpointReaderOptions read;
  read.read.file_system = &files_;
  CheckpointWriterOptions write;
  write.file_system = &files_;
  ASSERT_OK_AND_ASSIGN(const SalvageReport without, SalvageCheckpoint("/m", "/without", read, write));
  EXPECT_EQ(without.saved, 2);
  ASSERT_EQ(without.lost.size(), 1u);
  EXPECT_EQ(without.lost[0].tensor, "w");
  EXPECT_THAT(without.lost[0].status, StatusIs(Code::kFailedPrecondition, HasSubstr("delta")));
  read.base = Shared(OpenIn(&files_, "/base"));
  ASSERT_OK_AND_ASSIGN(const SalvageReport with, SalvageCheckpoint("/m", "/with", read, write));
  EXPECT_EQ(with.saved, 3);
  EXPECT_TRUE(with.lost.empty());
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_, "/with"));
  ExpectReads(reader, "w", second_);
  for (const char* name : {"new", "w"}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find(name));
    ASSERT_NE(entry.payload, nullptr) << name;
    EXPECT_EQ(entry.payload->level, 1) << name;
    EXPECT_FALSE(entry.payload->is_delta) << name;
  }
}

}  // namespace
}  // namespace tensorcask
