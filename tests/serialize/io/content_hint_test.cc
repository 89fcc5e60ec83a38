#include "tensorcask/serialize/io/content_hint.h"

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace std::literals;  // NOLINT(google-build-using-namespace)
using Code = absl::StatusCode;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;

struct Content {
  const char* name;
  std::string_view bytes;
  const char* what;
  const char* format;
};

const Content kContents[] = {
    {"GitLfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0", "a pointer of Git LFS", ""},
    {"Html", "\n<!DOCTYPE html><html><title> Sign in </title>", "a web page (HTML, \"Sign in\")", ""},
    {"HtmlWithoutTitle", "\xef\xbb\xbf<HTML>", "a web page (HTML)", ""},
    {"Xml", "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>",
     "an XML document (such as the error of a store, \"AccessDenied\")", ""},
    {"Json", "{\"error\":\"Not found\"}\n", "JSON text: \"{\\\"error\\\":\\\"Not found\\\"}\"", ""},
    {"Index", "{\"metadata\": {}, \"weight_map\": {", "the index of a model", "safetensors"},
    {"IndexOfPyTorch", R"({"weight_map": {"a": "pytorch_model-00001-of-00002.bin", )", "the index of a model", "torch"},
    {"Text", "Invalid username or password.", "text: \"Invalid username or password.\"", ""},
    {"Gzip", "\x1f\x8b\x08\0\0\0\0\0\0\3"sv, "a gzip file", ""},
    {"Zlib", "\x78\x9c\xed\x97\x3b\x0e\xc2\x30", "compressed with zlib", ""},
    {"ZlibFast", "\x78\x01\xed\x97\x3b\x0e\xc2\x30", "compressed with zlib", ""},
    {"ZlibBest", "\x78\xda\xed\x97\x3b\x0e\xc2\x30", "compressed with zlib", ""},
    {"SmallNumber", "\x78\x9c\0\0\0\0\0\0\xff\xff\xff\xff"sv, "", ""},
    {"Zstandard", "\x28\xb5\x2f\xfd\4\0", "Zstandard", ""},
    {"Xz",
     "\xfd"
     "7zXZ\0\0"sv,
     "xz", ""},
    {"Bzip2", "BZh91AY&SY", "bzip2", ""},
    {"SevenZip", "7z\xbc\xaf\x27\x1c\0\4"sv, "7z archive", ""},
    {"Pickle", "\x80\4\x95\0\0\0\0\0\0\0\0}\x94."sv, "a pickle of Python", ""},
    {"OldPyTorch", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "a PyTorch file", "torch"},
    {"PyTorch", "PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0archive/data.pkl"sv, "a PyTorch file",
     "torch"},
    {"PyTorchOfOurs", "PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0e\0\0\0archive/data/0"sv,
     "a PyTorch file", "torch"},
    {"OtherZip", "PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0a.txt"sv,
     "a zip file whose first member, \"a.txt\", is not an array", "npz"},
    {"EmptyZip", "PK\5\6\0\0\0\0"sv, "an empty zip archive", "npz"},
    {"Gguf", "GGUF\3\0\0\0"sv, "GGUF", "gguf"},
    {"Hdf5", "\x89HDF\r\n\x1a\n", "an HDF5 file", "hdf5"},
    {"Onnx", "\x08\x07\x12\x07pytorch\x1a", "an ONNX model", "onnx"},
    {"TfLite", "\x1c\0\0\0TFL3"sv, "TensorFlow Lite", ""},
    {"Png", "\x89PNG\r\n\x1a\n", "PNG", ""},
    {"Jpeg", "\xff\xd8\xff\xe0", "JPEG", ""},
    {"Zeros", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"sv, "a file of zeros (its first 16 bytes)", ""},
    {"Empty", "", "an empty file", ""},
    {"Npy", "\x93NUMPY\1\0v\0{"sv, "an npy file", "npy"},
    {"Npz", "PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0a.npy"sv, "an npz file", "npz"},
    {"Safetensors", "\x40\0\0\0\0\0\0\0{\"w\":{\"dtype\""sv, "a safetensors file", "safetensors"},
    // Lengths of headers that begin with the bytes of other signatures.
    {"LengthLikeGzip", "\x1f\x8b\x08\0\0\0\0\0{\"w\":{\"dtype\""sv, "a safetensors file", "safetensors"},
    {"LengthLikeZlib", "\x78\x9c\0\0\0\0\0\0{\"w\":{\"dtype\""sv, "a safetensors file", "safetensors"},
    {"Noise", "\xa7\x13\xf0\x88\x91\xc3\x02\x1e\x7f\xee", "", ""},
};

TEST(ContentHint, KnowsEachSignature) {
  for (const Content& content : kContents) {
    SCOPED_TRACE(content.name);
    const std::string bytes(content.bytes);
    const ContentHint hint = LookAtContent(bytes, bytes.size());
    EXPECT_EQ(hint.format, content.format);
    if (*content.what == '\0') {
      EXPECT_EQ(hint.what, "");
    } else {
      EXPECT_THAT(hint.what, HasSubstr(content.what));
    }
  }
  const std::string tar = "model/" + std::string(251, '\0') + "ustar\0" + std::string(200, '\0');
  EXPECT_THAT(LookAtContent(tar, tar.size()).what, HasSubstr("a tar archive"));
}

TEST(ContentHint, EachPrefixIsLookedAtWithinItsBounds) {
  for (const Content& content : kContents) {
    for (size_t size = 0; size <= content.bytes.size(); ++size) {
      const auto prefix = std::make_unique<char[]>(size);  // so that a sanitizer sees a byte too many
      content.bytes.copy(prefix.get(), size);
      LookAtContent({prefix.get(), size}, size);
    }
  }
}

TEST(ContentHint, SaysWhatAnotherFileIs) {
  const absl::Status refused = absl::DataLossError("m.bin: the header's length is 7");
  const auto explain = [&](std::string_view bytes, const char* format) {
    const std::string kept(bytes);
    return ExplainContent(refused, *MakeMemorySource("m.bin", kept), format);
  };
  EXPECT_THAT(explain("version https://git-lfs.github.com/spec/v1", "safetensors"),
              StatusIs(Code::kDataLoss,
                       "m.bin: this is a pointer of Git LFS, not the file itself: fetch the file (git "
                       "lfs pull)"));
  EXPECT_THAT(explain("\x93NUMPY\1\0v\0{"sv, "safetensors"),
              StatusIs(Code::kDataLoss, "m.bin: this is an npy file, not of the format safetensors"));
  EXPECT_THAT(explain("go away", "npy"),
              StatusIs(Code::kDataLoss, "m.bin: the header's length is 7; this looks like text: \"go away\""));
  EXPECT_EQ(explain("\x93NUMPY\1\0v\0{"sv, "npy"), refused);
  EXPECT_EQ(explain("\xa7\x13\xf0\x88\x91\xc3\x02\x1e", "npy"), refused);
  const absl::Status limit = absl::ResourceExhaustedError("m.bin: too much");
  EXPECT_EQ(ExplainContent(limit, *MakeMemorySource("m.bin", "BZh9"), "npy"), limit);
}

}  // namespace
}  // namespace tensorcask
