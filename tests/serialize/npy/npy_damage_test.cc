// Cut and changed npy and npz files are refused, or read as what was written.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/npy/npy_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::Named;
using testing::Npy;
using testing::RandomTensor;
using testing::WriteNpz;

struct SmallFile {
  const char* name;
  bool is_npz;
  std::string bytes;
};

// Three small files of each format.
std::vector<SmallFile> SmallFiles() {
  std::mt19937 random(5);
  const Tensor floats = RandomTensor(DType::kFloat32, TensorShape({2, 3}), &random);
  const Tensor bools = RandomTensor(DType::kBool, TensorShape({5}), &random);
  const Tensor strings = *Tensor::FromSpan<std::string>(TensorShape({2}), {"ab", "c"});
  NpyFormat column_major;
  column_major.order = NpyOrder::kColumnMajor;
  column_major.big_endian = true;
  NpyFormat unicode;
  unicode.strings = NpyStrings::kUnicode;
  std::vector<SmallFile> small = {{"floats", false, Npy(floats)},
                                  {"column major", false, Npy(floats, column_major)},
                                  {"unicode", false, Npy(strings, unicode)}};
  for (const int level : {0, 6}) {
    const std::vector<std::vector<Named>> sets = {
        {{"w", floats}}, {{"a", floats}, {"b", bools}}, {{"s", strings}, {"\xc3\xa4", Tensor::Scalar<int8_t>(3)}}};
    for (const std::vector<Named>& tensors : sets) {
      MemoryFileSystem files;
      NpzWriterOptions options;
      options.deflate_level = level;
      EXPECT_OK(WriteNpz(&files, tensors, options));
      small.push_back({level == 0 ? "stored" : "deflated", true, *files.Find("a.npz")});
    }
  }
  return small;
}

// What a reader gives of a file: all tensors, or an error. Everything that can be called is called.
template <typename Reader>
absl::StatusOr<std::vector<NpyTensor>> Everything(const std::string& bytes) {
  absl::StatusOr<Reader> reader = Reader::Open(MakeMemorySource("file", bytes));
  if (!reader.ok()) return reader.status();
  absl::StatusOr<std::vector<NpyTensor>> all = reader->ReadAll();
  int damages = 0;
  EXPECT_OK(reader->VerifyAll([&](const NpyDamage& damage) {
    EXPECT_FALSE(damage.status.ok());
    ++damages;
  }));
  bool is_readable = true;
  for (const NpyEntry& entry : reader->entries()) {
    is_readable = is_readable && entry.readable.ok();
    (void)reader->Map(entry.name);
    (void)reader->ReadView(entry.name);
  }
  if (is_readable && !absl::IsResourceExhausted(all.status())) {
    EXPECT_EQ(all.ok(), damages == 0) << all.status();
  }
  return all;
}

absl::StatusOr<std::vector<NpyTensor>> Everything(const SmallFile& file, const std::string& bytes) {
  return file.is_npz ? Everything<NpzReader>(bytes) : Everything<NpyReader>(bytes);
}

TEST(NpyDamageTest, EveryCutIsRefused) {
  for (const SmallFile& file : SmallFiles()) {
    ASSERT_OK(Everything(file, file.bytes));
    for (size_t length = 0; length < file.bytes.size(); ++length) {
      const auto read = Everything(file, file.bytes.substr(0, length));
      EXPECT_FALSE(read.ok()) << file.name << " cut at " << length;
    }
    EXPECT_FALSE(Everything(file, absl::StrCat(file.bytes, "x")).ok()) << file.name;
    EXPECT_FALSE(Everything(file, absl::StrCat("x", file.bytes)).ok()) << file.name;
  }
}

// A changed byte of an npz file is noticed wherever a checksum or a second copy covers it. What remains are bytes
// without meaning for tensors: times, versions, attributes.
TEST(NpyDamageTest, EveryChangedByteIsRefusedOrHarmless) {
  for (const SmallFile& file : SmallFiles()) {
    const std::vector<NpyTensor> good = *Everything(file, file.bytes);
    int accepted = 0;
    for (size_t at = 0; at < file.bytes.size(); ++at) {
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string bytes = file.bytes;
        bytes[at] = static_cast<char>(bytes[at] ^ change);
        const auto read = Everything(file, bytes);
        if (!read.ok() || !file.is_npz) continue;
        ++accepted;
        ASSERT_EQ(read->size(), good.size()) << file.name << " " << at;
        for (size_t i = 0; i < good.size(); ++i) {
          EXPECT_TRUE((*read)[i].name == good[i].name && Equal((*read)[i].tensor, good[i].tensor))
              << file.name << " changed at " << at;
        }
      }
    }
    EXPECT_LT(accepted, 3 * 160) << file.name;
  }
}

}  // namespace
}  // namespace tensorcask
