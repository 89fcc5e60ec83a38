// The list of formats, and the options of single ones.

#include "tensorcask/serialize/archive/formats/all_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;

// A format that a program brings along.
class Own final : public ArchiveFormat {
 public:
  absl::string_view name() const override { return "own"; }
  std::vector<absl::string_view> extensions() const override { return {".own"}; }
  ArchiveTraits traits() const override { return {}; }
  bool HoldsDType(DType /*dtype*/) const override { return true; }
  bool Recognizes(const ArchiveProbe& /*probe*/) const override { return false; }
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& /*options*/) const override {
    return absl::NotFoundError(path);
  }
};

TEST(AllFormats, HaveNamesAndExtensionsOfTheirOwn) {
  const AllFormats formats;
  std::set<absl::string_view> names;
  std::set<absl::string_view> extensions;
  for (const ArchiveFormat* const format : formats.list()) {
    EXPECT_TRUE(names.insert(format->name()).second) << format->name();
    for (const absl::string_view extension : format->extensions()) {
      EXPECT_TRUE(extensions.insert(extension).second) << extension;
    }
  }
}

TEST(AllFormats, HoldATensorWithoutMetadata) {
  const AllFormats formats;
  TensorMetadata metadata;
  for (const ArchiveFormat* const format : formats.list())
    EXPECT_TRUE(format->HoldsMetadata(metadata)) << format->name();
  EXPECT_TRUE(Own().HoldsMetadata(metadata));
  metadata.attributes["unit"] = "m";
  EXPECT_FALSE(Own().HoldsMetadata(metadata));
}

TEST(AllFormats, EndWithThoseOfTheProgram) {
  std::vector<std::unique_ptr<const ArchiveFormat>> own;
  own.push_back(std::make_unique<Own>());
  const AllFormats library;
  const AllFormats formats({}, std::move(own));
  ASSERT_EQ(formats.list().size(), library.list().size() + 1);
  EXPECT_EQ(formats.list().back()->name(), "own");
  EXPECT_OK(FormatForName("x.own", formats.list()).status());
}

TEST(FormatOptions, BelongToFormatsOfTheList) {
  const AllFormats formats;
  std::set<absl::string_view> names;
  for (const FormatOption& option : FormatOptionList()) {
    SCOPED_TRACE(option.name);
    EXPECT_TRUE(names.insert(option.name).second);
    EXPECT_FALSE(option.formats.empty());
    EXPECT_FALSE(option.what.empty());
    for (const absl::string_view format : option.formats) EXPECT_OK(FindFormat(format, formats.list()).status());
  }
}

// The fields differ, so an option sets none of another.
TEST(FormatOptions, HaveAFieldOfTheirOwn) {
  FormatOptions options;
  std::set<const void*> fields;
  for (const FormatOption& option : FormatOptionList()) {
    const void* const field =
        std::visit([&](auto get) { return static_cast<const void*>(get(&options)); }, option.field);
    EXPECT_TRUE(fields.insert(field).second) << option.name;
  }
  EXPECT_EQ(fields.size(), FormatOptionList().size());
}

TEST(FormatOptions, OfACopyAreThoseOfBothSides) {
  FormatOptions reading;
  reading.onnx.constants = true;
  reading.onnx.base_model = "not for reading";
  FormatOptions writing;
  writing.safetensors.max_shard_bytes = 7;
  writing.gguf.blocks_as_bytes = true;
  const FormatOptions both = ForCopies(reading, writing);
  EXPECT_TRUE(both.onnx.constants);
  EXPECT_EQ(both.onnx.base_model, "");
  EXPECT_EQ(both.safetensors.max_shard_bytes, 7u);
  EXPECT_FALSE(both.gguf.blocks_as_bytes);
}

TEST(FormatOptions, OfOtherFormatsAreNamed) {
  const absl::Span<const FormatOption> all = FormatOptionList();
  const auto option = [&](absl::string_view name) {
    return std::find_if(all.begin(), all.end(), [&](const FormatOption& one) { return one.name == name; });
  };
  ASSERT_NE(option("shard-size"), all.end());
  EXPECT_EQ(NotForFormat(*option("shard-size"), "--shard-size", SafetensorsArchiveFormat()), "");
  EXPECT_EQ(NotForFormat(*option("shard-size"), "max_shard_bytes", NpzArchiveFormat()),
            "max_shard_bytes is for safetensors files, not for an npz file");
  ASSERT_NE(option("opaque-dtype"), all.end());
  EXPECT_EQ(NotForFormat(*option("opaque-dtype"), "--opaque-dtype", OnnxArchiveFormat()),
            "--opaque-dtype is for npy and npz and hdf5 files, not for an onnx file");
  EXPECT_THAT(option("opaque-dtype")->formats, ElementsAre("npy", "npz", "hdf5"));
}

}  // namespace
}  // namespace tensorcask
