// Encoded tensors in checkpoints: what is encoded and how, and that it comes back.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/encoded_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::At;
using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::Damages;
using ::tensorcask::testing::ExpectReads;
using ::tensorcask::testing::Fill;
using ::tensorcask::testing::InIndex;
using ::tensorcask::testing::kData;
using ::tensorcask::testing::OpenIn;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::SaveIn;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Weights;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

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
  CheckpointAddOptions add;
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
  CheckpointAddOptions high;
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
  CheckpointAddOptions add;
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
    CheckpointAddOptions preserve;
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
        CheckpointAddOptions add;
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

// ---- Equal tensors --------------------------------------------------------------------------------------------------

TEST(Encoded, EqualTensorsOfAShardAreStoredOnce) {
  MemoryFileSystem files;
  const Tensor weights = Weights({100, 100}, 1);
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  options.num_shards = 2;
  SaveIn(&files, "/m", options, [&](CheckpointWriter& writer) {
    CheckpointAddOptions other_shard;
    other_shard.shard = 1;
    CheckpointAddOptions high;
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

}  // namespace
}  // namespace tensorcask
