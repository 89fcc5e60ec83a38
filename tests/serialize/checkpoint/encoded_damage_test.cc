// Encoded tensors that are damaged or have false headers: an error names each, and the others stay readable.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/internal/payload_index.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/bundle_forge.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BundleForge;
using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

constexpr char kData[] = "/m.data-00000-of-00001";

// int32 [n], a few values.
Tensor Numbers(int64_t n) {
  Tensor tensor = *Tensor::Create(DType::kInt32, TensorShape({n}));
  int32_t i = 0;
  for (int32_t& value : tensor.mutable_flat<int32_t>()) value = i++ * 7 % 300;
  return tensor;
}

std::string Encoded(const Tensor& tensor, PayloadLevel level = PayloadLevel::kDefault) {
  std::string bytes;
  StringSink sink(&bytes);
  PayloadWriteOptions options;
  options.payload.level = level;
  options.payload.chunk_bytes = size_t{64} << 10;
  EXPECT_TRUE(EncodePayload(tensor, options, &sink)->has_value());
  return bytes;
}

BundleEntryProto& AddEncoded(BundleForge* bundle, const std::string& name, const Tensor& tensor,
                             const std::string& payload) {
  const DimVector dims(tensor.shape().dims());
  BundleEntryProto& entry = bundle->Add(name, 0, std::vector<int64_t>(dims.begin(), dims.end()), payload);
  entry.mutable_extension()->set_dtype(DTypeNumber(tensor.dtype()));
  entry.mutable_extension()->set_payload(payload.substr(0, kPayloadHeaderBytes));
  return entry;
}

absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, CheckpointReaderOptions options = {}) {
  options.read.file_system = files;
  return CheckpointReader::Open("/m", options);
}

struct Found {
  CheckpointCounts counts;
  std::vector<std::string> damages;  // "TENSOR: MESSAGE"
};

Found VerifyAll(const CheckpointReader& reader) {
  Found found;
  const absl::StatusOr<CheckpointCounts> counts = reader.VerifyAll([&](const CheckpointDamage& damage) {
    found.damages.push_back(absl::StrCat(damage.tensor, ": ", damage.status.message()));
  });
  EXPECT_OK(counts.status());
  if (counts.ok()) found.counts = *counts;
  return found;
}

// ---- Lies in the index ----------------------------------------------------------------------------------------------

PayloadHeader HeadOf(const BundleEntryProto& entry) { return *PayloadHeader::Parse(entry.extension().payload()); }

struct Lie {
  const char* name;
  std::function<void(BundleEntryProto*)> change;
  Code code;
  const char* says;
};

class EncodedLies : public ::testing::TestWithParam<Lie> {};

TEST_P(EncodedLies, AreRefused) {
  BundleForge bundle;
  const Tensor numbers = Numbers(1000);
  GetParam().change(&AddEncoded(&bundle, "w", numbers, Encoded(numbers)));
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  const auto refused =
      StatusIs(GetParam().code, AllOf(HasSubstr("/m."), HasSubstr("tensor \"w\""), HasSubstr(GetParam().says)));
  EXPECT_THAT(reader.Read("w"), refused);
  EXPECT_THAT(reader.Map("w"), refused);
  EXPECT_THAT(reader.ReadSlice("w", *TensorSlice::Parse("0,1")), refused);
  EXPECT_THAT(reader.ReadAll(), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  const Found found = VerifyAll(reader);
  EXPECT_EQ(found.counts.whole, 0);
  if (GetParam().code == Code::kUnimplemented) {
    EXPECT_EQ(found.counts.not_checked, 1);
    EXPECT_THAT(found.damages, IsEmpty());
  } else {
    EXPECT_THAT(found.damages, ElementsAre(HasSubstr(GetParam().says)));
  }
}

void SetHeader(BundleEntryProto* entry, const std::function<void(PayloadHeader*)>& change) {
  PayloadHeader header = HeadOf(*entry);
  change(&header);
  entry->mutable_extension()->set_payload(header.Encode());
}

const Lie kLies[] = {
    {"AnotherHeader", [](BundleEntryProto* e) { SetHeader(e, [](PayloadHeader* header) { header->level = 2; }); },
     Code::kDataLoss, "the header of its payload is not the one that the index has"},
    {"AnotherChunkSize",
     [](BundleEntryProto* e) { SetHeader(e, [](PayloadHeader* header) { header->log2_chunk_bytes = 20; }); },
     Code::kDataLoss, "the header of its payload is not the one that the index has"},
    {"CutHead", [](BundleEntryProto* e) { e->mutable_extension()->mutable_payload()->pop_back(); }, Code::kDataLoss,
     "has 63 bytes; wanted 64"},
    {"AllOfThePayload", [](BundleEntryProto* e) { e->mutable_extension()->mutable_payload()->append("x"); },
     Code::kDataLoss, "has 65 bytes; wanted 64"},
    {"Checksum", [](BundleEntryProto* e) { (*e->mutable_extension()->mutable_payload())[17] ^= 1; }, Code::kDataLoss,
     "checksum is wrong"},
    {"Newer", [](BundleEntryProto* e) { (*e->mutable_extension()->mutable_payload())[7] = 2; }, Code::kUnimplemented,
     "version 2"},
    {"AnotherDtype", [](BundleEntryProto* e) { e->mutable_extension()->set_dtype(1); }, Code::kDataLoss,
     "1000 elements of int32; it is float32 [1000]"},
    {"NoSuchForm", [](BundleEntryProto* e) { e->mutable_extension()->set_dtype(21); }, Code::kDataLoss,
     "it is variant [1000]"},
    {"AnotherShape", [](BundleEntryProto* e) { e->mutable_shape()->mutable_dim(0)->set_size(999); }, Code::kDataLoss,
     "it is int32 [999]"},
    {"MoreElements",
     [](BundleEntryProto* e) {
       e->mutable_shape()->mutable_dim(0)->set_size(int64_t{1} << 24);
       SetHeader(e, [](PayloadHeader* header) { header->num_elements = uint64_t{1} << 24; });
     },
     Code::kResourceExhausted, "max_expansion"},
    {"Strides", [](BundleEntryProto* e) { e->mutable_extension()->add_strides(1); }, Code::kDataLoss,
     "is neither that of an extension-only entry"},
    {"ShortSize", [](BundleEntryProto* e) { e->set_size(e->size() - 1); }, Code::kDataLoss, "index"},
    {"TooShortForAHead", [](BundleEntryProto* e) { e->set_size(63); }, Code::kDataLoss, "63 bytes"},
    {"LongSize", [](BundleEntryProto* e) { e->set_size(e->size() + 1); }, Code::kDataLoss, "are wanted"},
    {"AnotherPlace",
     [](BundleEntryProto* e) {
       e->set_offset(8);
       e->set_size(e->size() - 8);
     },
     Code::kDataLoss, "payload header"},
};
INSTANTIATE_TEST_SUITE_P(Lies, EncodedLies, ::testing::ValuesIn(kLies),
                         [](const auto& info) { return std::string(info.param.name); });

// The checksum of the entry is that of all bytes, those included that belong to no chunk.
TEST(EncodedDamage, ChecksumOfTheEntry) {
  BundleForge bundle;
  const Tensor numbers = Numbers(1000);
  BundleEntryProto& entry = AddEncoded(&bundle, "w", numbers, Encoded(numbers));
  entry.set_crc32c(entry.crc32c() ^ 1);
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  EXPECT_OK(reader.Read("w"));  // its chunks are right
  const Found found = VerifyAll(reader);
  EXPECT_THAT(found.damages, ElementsAre(HasSubstr("its checksum is")));
  EXPECT_EQ(found.counts.whole, 0);
}

TEST(EncodedDamage, Limits) {
  BundleForge bundle;
  const Tensor numbers = Numbers(100000);
  const std::string payload = Encoded(numbers);
  ASSERT_LT(payload.size(), 400000u / 2);
  AddEncoded(&bundle, "w", numbers, payload);
  Tensor strings = *Tensor::Create(DType::kString, TensorShape({100}));
  for (std::string& value : strings.mutable_flat<std::string>()) value = std::string(1000, 'x');
  const std::string string_payload = Encoded(strings);
  ASSERT_LT(string_payload.size(), 10000u);
  AddEncoded(&bundle, "s", strings, string_payload);
  MemoryFileSystem files;
  bundle.Put(&files);
  CheckpointReaderOptions options;
  options.limits.max_expansion = 2;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader expanding, OpenIn(&files, options));
  EXPECT_THAT(expanding.Read("s"), StatusIs(Code::kResourceExhausted, HasSubstr("max_expansion")));
  options = {};
  options.limits.max_file_decoded_bytes = 399999;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader small, OpenIn(&files, options));
  EXPECT_THAT(small.Read("w"), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes")));
  EXPECT_OK(small.ReadSlice("w", *TensorSlice::Parse("5,1000")));
  // Strings count as what they are, not as what they are stored in.
  options.limits.max_file_decoded_bytes = 100000;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader smaller, OpenIn(&files, options));
  EXPECT_THAT(smaller.Read("s"), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes")));
  EXPECT_THAT(smaller.ReadAll(1, [](const CheckpointEntry& entry) { return entry.name == "s"; }),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes")));
}

// Pieces have no names by which a base could be found.
TEST(EncodedLies, APieceIsNoDelta) {
  const Tensor base = Numbers(1000);
  const TensorView base_view = base;
  Tensor next = *base.Clone();
  for (int32_t& value : next.mutable_flat<int32_t>()) value += 1000;
  for (const bool is_delta : {false, true}) {
    PayloadWriteOptions options;
    if (is_delta) options.payload.base = MakeBaseLookup(base_view);
    std::string payload;
    StringSink sink(&payload);
    ASSERT_OK_AND_ASSIGN(const auto written, EncodePayload(next, options, &sink));
    ASSERT_TRUE(written.has_value() && written->header.is_delta == is_delta);
    BundleForge bundle;
    bundle.AddSliced("w", DTypeNumber(DType::kInt32), {1000}, {"0,1000"});
    BundleEntryProto& piece = bundle.AddPiece("w", "0,1000", 0, {1000}, payload);
    piece.mutable_extension()->set_dtype(DTypeNumber(DType::kInt32));
    piece.mutable_extension()->set_payload(payload.substr(0, kPayloadHeaderBytes));
    MemoryFileSystem files;
    bundle.Put(&files);
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
    const absl::StatusOr<Tensor> read = reader.Read("w");
    if (is_delta) {
      EXPECT_THAT(read, StatusIs(Code::kDataLoss, HasSubstr("is a delta")));
    } else {
      ASSERT_OK(read);
      EXPECT_TRUE(SameTensor(*read, next));
    }
    EXPECT_EQ(VerifyAll(reader).damages.size(), is_delta ? 1 : 0);
  }
}

// However many times a checkpoint is given as its own base, its delta is refused.
TEST(EncodedLies, ADeltaIsNoBaseOfItself) {
  const Tensor base = Numbers(1000);
  Tensor next = *base.Clone();
  for (int32_t& value : next.mutable_flat<int32_t>()) value += 1000;
  const TensorView base_view = base;
  PayloadWriteOptions options;
  options.payload.base = MakeBaseLookup(base_view);
  std::string payload;
  StringSink sink(&payload);
  ASSERT_OK_AND_ASSIGN(const auto written, EncodePayload(next, options, &sink));
  ASSERT_TRUE(written.has_value() && written->header.is_delta);
  BundleForge bundle;
  AddEncoded(&bundle, "w", next, payload);
  MemoryFileSystem files;
  bundle.Put(&files);
  CheckpointReaderOptions read;
  for (int times = 0; times < 3; ++times) {
    ASSERT_OK_AND_ASSIGN(CheckpointReader reader, OpenIn(&files, read));
    const auto refused = StatusIs(Code::kFailedPrecondition, HasSubstr(times == 0 ? "no base is given" : "and so is"));
    EXPECT_THAT(reader.Read("w"), refused);
    EXPECT_THAT(reader.ReadSlice("w", *TensorSlice::Parse("0,1")), refused);
    // Without a base a delta cannot be checked; a base that is a delta itself is the wrong one.
    const Found verified = VerifyAll(reader);
    EXPECT_EQ(verified.damages.size(), times == 0 ? 0U : 1U);
    EXPECT_EQ(verified.counts.without_base, times == 0 ? 1 : 0);
    EXPECT_EQ(verified.counts.whole, 0);
    read.base = std::make_shared<const CheckpointReader>(std::move(reader));
  }
}

// ---- Overlaps -------------------------------------------------------------------------------------------------------

absl::Status Listed(const BundleForge& bundle, const CheckpointReaderOptions& options = {}) {
  MemoryFileSystem files;
  bundle.Put(&files);
  const absl::StatusOr<CheckpointReader> reader = OpenIn(&files, options);
  if (!reader.ok()) return reader.status();
  const absl::Status listed = reader->entries().status();
  EXPECT_EQ(VerifyAll(*reader).damages.empty(), listed.ok());
  return listed;
}

TEST(EncodedDamage, OnlyTheVerySameRangeIsShared) {
  const Tensor numbers = Numbers(1000);
  const std::string payload = Encoded(numbers);
  BundleForge bundle;
  const BundleEntryProto first = AddEncoded(&bundle, "a", numbers, payload);
  const auto with = [&](const std::function<void(BundleEntryProto*)>& change) {
    BundleForge other = bundle;
    BundleEntryProto entry = first;
    change(&entry);
    other.entries["b"] = entry;
    return other;
  };
  const auto overlap =
      StatusIs(Code::kDataLoss, AllOf(HasSubstr(kData), HasSubstr("tensor \"b\""), HasSubstr("overlaps tensor \"a\"")));
  EXPECT_OK(Listed(with([](BundleEntryProto*) {})));
  EXPECT_OK(Listed(with([](BundleEntryProto* e) {
    e->mutable_shape()->mutable_dim(0)->set_size(100);
    e->mutable_shape()->add_dim()->set_size(10);
  })));
  EXPECT_THAT(Listed(with([](BundleEntryProto* e) { e->set_size(e->size() - 1); })), overlap);
  EXPECT_THAT(Listed(with([](BundleEntryProto* e) { e->set_crc32c(e->crc32c() + 1); })), overlap);
  EXPECT_THAT(Listed(with([](BundleEntryProto* e) { SetHeader(e, [](PayloadHeader* header) { header->level = 2; }); })),
              overlap);
  EXPECT_THAT(Listed(with([](BundleEntryProto* e) {
                e->set_offset(64);
                e->set_size(e->size() - 64);
              })),
              overlap);
  // Plain bytes in those of a payload.
  BundleForge plain = bundle;
  BundleEntryProto& inside = plain.entries["b"];
  inside = first;
  inside.clear_extension();
  inside.set_dtype(DT_UINT8);
  inside.mutable_shape()->mutable_dim(0)->set_size(inside.size());
  EXPECT_THAT(Listed(plain), overlap);
}

TEST(EncodedDamage, SharingIsBounded) {
  const Tensor numbers = Numbers(1000);
  const std::string payload = Encoded(numbers);
  BundleForge bundle;
  const BundleEntryProto first = AddEncoded(&bundle, "0", numbers, payload);
  for (int i = 1; i < 10; ++i) bundle.entries[absl::StrCat(i)] = first;
  EXPECT_OK(Listed(bundle));
  CheckpointReaderOptions options;
  options.limits.max_expansion = static_cast<int64_t>(40'000 / payload.size() + 1);
  EXPECT_OK(Listed(bundle, options));
  options.limits.max_expansion = static_cast<int64_t>(40'000 / payload.size());
  EXPECT_THAT(Listed(bundle, options),
              StatusIs(Code::kResourceExhausted,
                       AllOf(HasSubstr("tensor \"9\""), HasSubstr("10 entries share these"),
                             HasSubstr(absl::StrCat("the limit max_expansion is ", options.limits.max_expansion)))));
}

// ---- Damage to the data ---------------------------------------------------------------------------------------------

class EncodedData : public ::testing::Test {
 protected:
  void SetUp() override {
    CheckpointWriterOptions options;
    options.file_system = &files_;
    options.payload.level = PayloadLevel::kDefault;
    Tensor strings = *Tensor::Create(DType::kString, TensorShape({50}));
    int i = 0;
    for (std::string& value : strings.mutable_flat<std::string>()) value = absl::StrCat("a string, number ", i++ % 9);
    tensors_ = {{"again", Numbers(300)}, {"n", Numbers(300)}, {"s", strings}};
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
    for (const auto& [name, tensor] : tensors_) ASSERT_OK(writer.Add(name, tensor));
    ASSERT_OK(writer.Finish());
    data_ = BytesOf(files_, kData);
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_));
    for (const auto& [name, tensor] : tensors_) {
      ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find(name));
      ASSERT_EQ(entry.form, EntryForm::kEncoded) << name;
      places_[name] = {entry.offset, entry.offset + entry.stored_bytes};
    }
  }

  MemoryFileSystem files_;
  std::map<std::string, Tensor> tensors_;  // two are the same
  std::map<std::string, std::pair<uint64_t, uint64_t>> places_;
  std::string data_;
};

TEST_F(EncodedData, EachByteMatters) {
  ASSERT_EQ(places_["again"], places_["n"]);
  for (size_t at = 0; at < data_.size(); ++at) {
    for (const int bit : {0, 7}) {
      SCOPED_TRACE(absl::StrCat("byte ", at, " bit ", bit));
      std::string data = data_;
      data[at] ^= static_cast<char>(1 << bit);
      files_.Put(kData, data);
      ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_));
      const Found found = VerifyAll(reader);
      int64_t whole = 0;
      for (const auto& [name, tensor] : tensors_) {
        const absl::StatusOr<Tensor> read = reader.Read(name);
        const bool hit = at >= places_[name].first && at < places_[name].second;
        if (read.ok()) {
          EXPECT_TRUE(SameTensor(*read, tensor)) << name;
        } else {
          EXPECT_TRUE(hit) << name << ": " << read.status();
          EXPECT_THAT(read.status().message(), AllOf(HasSubstr(kData), HasSubstr(absl::StrCat("\"", name, "\""))));
        }
        if (!hit) ++whole;
        if (hit) {
          EXPECT_THAT(found.damages, Contains(HasSubstr(absl::StrCat(name, ": "))));
        }
      }
      EXPECT_EQ(found.counts.whole, whole);
    }
  }
}

TEST_F(EncodedData, EachLengthIsNoticed) {
  for (size_t size = 0; size < data_.size(); ++size) {
    SCOPED_TRACE(size);
    files_.Put(kData, data_.substr(0, size));
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_));
    for (const auto& [name, tensor] : tensors_) {
      const absl::StatusOr<Tensor> read = reader.Read(name);
      EXPECT_EQ(read.ok(), size >= places_[name].second) << name;
      if (!read.ok()) {
        EXPECT_THAT(read, StatusIs(Code::kDataLoss, HasSubstr(kData)));
      }
    }
  }
}

TEST(EncodedDamage, EachDamagedChunkIsNamed) {
  const Tensor numbers = Numbers(int64_t{5} * 16384);  // 5 chunks
  const std::string payload = Encoded(numbers);
  const auto index = payload::PayloadIndex::Read(payload::PayloadBytes(payload), {});
  ASSERT_OK(index.status());
  ASSERT_EQ(index->header().num_chunks(), 5u);
  BundleForge bundle;
  const BundleEntryProto first = AddEncoded(&bundle, "w", numbers, payload);
  bundle.entries["z"] = first;
  AddEncoded(&bundle, "other", Numbers(1000), Encoded(Numbers(1000)));
  std::set<uint64_t> offsets;  // equal chunks are stored once: two that are not
  for (const uint64_t chunk : {1, 3}) {
    offsets.insert(index->entry(chunk).offset);
    bundle.data[index->entry(chunk).offset + index->entry(chunk).size / 2] ^= 1;
  }
  ASSERT_EQ(offsets.size(), 2u);
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  const Found found = VerifyAll(reader);
  EXPECT_THAT(found.damages,
              ElementsAre(AllOf(HasSubstr("w: "), HasSubstr(kData), HasSubstr("tensor \"w\" at offset 0"),
                                HasSubstr("chunk 1 (elements 16384 to 32767)")),
                          AllOf(HasSubstr("w: "), HasSubstr("chunk 3 ")),
                          AllOf(HasSubstr("z: "), HasSubstr("damaged, as it is for tensor \"w\""))));
  EXPECT_EQ(found.counts.whole, 1);
  // What is in the other chunks can be had.
  const TensorSlice whole_chunk = *TensorSlice::Parse("32768,16384");
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("w", whole_chunk));
  EXPECT_TRUE(SameTensor(part, *TensorView(numbers).Slice(whole_chunk)->ToTensor()));
  EXPECT_THAT(reader.ReadSlice("w", whole_chunk, /*verify_whole=*/true),
              StatusIs(Code::kDataLoss, HasSubstr("chunk 1 ")));
  EXPECT_THAT(reader.ReadSlice("w", *TensorSlice::Parse("20000,1")), StatusIs(Code::kDataLoss, HasSubstr("chunk 1 ")));
  EXPECT_THAT(reader.Read("z"), StatusIs(Code::kDataLoss, HasSubstr("chunk 1 ")));
}

TEST(EncodedDamage, ChecksumsAreComparedUnlessToldNotTo) {
  const Tensor numbers = Numbers(1000);
  BundleForge bundle;
  const std::string payload = Encoded(numbers, PayloadLevel::kStored);
  AddEncoded(&bundle, "w", numbers, payload);
  bundle.data[kPayloadHeaderBytes] ^= 1;  // the first element
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  for (int i = 0; i < 2; ++i) EXPECT_THAT(reader.Read("w"), StatusIs(Code::kDataLoss, HasSubstr("chunk 0 ")));
  CheckpointReaderOptions options;
  options.verify = Verify::kNever;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader trusting, OpenIn(&files, options));
  ASSERT_OK_AND_ASSIGN(const Tensor read, trusting.Read("w"));
  EXPECT_EQ(read.flat<int32_t>()(0), 1);
  EXPECT_EQ(read.flat<int32_t>()(1), 7);
  EXPECT_THAT(VerifyAll(trusting).damages, ElementsAre(HasSubstr("chunk 0 ")));
}

}  // namespace
}  // namespace tensorcask
