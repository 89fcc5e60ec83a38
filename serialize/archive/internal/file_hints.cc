#include "tensorcask/serialize/archive/internal/file_hints.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/internal/stale_temporaries.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::archive {
namespace {

struct Signature {
  absl::string_view start;
  absl::string_view says;
};

constexpr Signature kSignatures[] = {
    {"\x1f\x8b", "this file is compressed with gzip: decompress it first (gunzip)"},
    {"\x28\xb5\x2f\xfd", "this file is compressed with Zstandard: decompress it first (unzstd)"},
    {"\xfd"
     "7zXZ",
     "this file is compressed with xz: decompress it first (unxz)"},
    {"model_checkpoint_path:",
     "this is the list of the checkpoints in its folder: give the folder (for the latest checkpoint) or the path of "
     "one"},
    {"BZh", "this file is compressed with bzip2: decompress it first (bunzip2)"},
    {"version https://git-lfs.", "this is a pointer of Git LFS, not the file itself: fetch the file (git lfs pull)"},
    {"\x89HDF\r\n", "this is an HDF5 file, a format that tensorcask does not read"},
    {"GGUF", "this is a GGUF file, a format that this version does not read"},
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
     "this is a PyTorch file (torch.save, before 1.6), a format that this version does not read; PyTorch can save its "
     "tensors as safetensors"},
    {"\x80\x02", "this looks like a pickle of Python, which is a program: tensorcask reads no pickles"},
    {"\x80\x03", "this looks like a pickle of Python, which is a program: tensorcask reads no pickles"},
    {"\x80\x04", "this looks like a pickle of Python, which is a program: tensorcask reads no pickles"},
    {"\x80\x05", "this looks like a pickle of Python, which is a program: tensorcask reads no pickles"},
};

// "conv1" for the first member of a zip file; "" if `head` does not begin with one.
absl::string_view FirstMember(absl::string_view head) {
  constexpr size_t kHeaderBytes = 30;
  constexpr size_t kNameLength = 26;
  if (!absl::StartsWith(head, "PK\x03\x04") || head.size() < kHeaderBytes) return "";
  const size_t size = static_cast<unsigned char>(head[kNameLength]) |
                      static_cast<size_t>(static_cast<unsigned char>(head[kNameLength + 1])) << 8;
  return head.substr(kHeaderBytes, size);
}

// Formats that the members of a zip file show, and those that only the name of the file shows.
std::string OtherHint(const std::string& path, absl::string_view head) {
  const absl::string_view member = FirstMember(head);
  const bool is_pytorch = absl::EndsWithIgnoreCase(path, ".pt") || absl::EndsWithIgnoreCase(path, ".pth") ||
                          absl::EndsWithIgnoreCase(path, ".ptl");
  if (absl::EndsWith(member, "/data.pkl") || (!member.empty() && is_pytorch)) {
    return "this is a PyTorch file (torch.save), a format that this version does not read; PyTorch can save its "
           "tensors "
           "as safetensors";
  }
  if (!member.empty() && absl::EndsWithIgnoreCase(path, ".keras")) {
    return "this is a Keras file, a format that this version does not read; Keras can save its weights as a checkpoint "
           "of TensorFlow";
  }
  if (!member.empty()) {
    return absl::StrCat("this is a zip file whose first member, ", Quoted(member),
                        ", is not an array of NumPy (.npy): not an npz file");
  }
  if (is_pytorch) return "this is named as a PyTorch file, a format that this version does not read";
  if (absl::EndsWithIgnoreCase(path, ".onnx")) return "this is an ONNX model, a format that this version does not read";
  constexpr size_t kTflitePosition = 4;
  if (absl::StartsWith(head.substr(std::min(head.size(), kTflitePosition)), "TFL3")) {
    return "this is a TensorFlow Lite model, a format that this version does not read";
  }
  return "";
}

// "m" for "m.data-00000-of-00001".
std::optional<std::string> PrefixOfDataFile(const std::string& path) {
  constexpr absl::string_view kPattern = ".data-00000-of-00000";
  if (path.size() <= kPattern.size()) return std::nullopt;
  const size_t split = path.size() - kPattern.size();
  const bool matches = std::equal(kPattern.begin(), kPattern.end(), path.begin() + static_cast<std::ptrdiff_t>(split),
                                  [](char p, char c) { return p == '0' ? c >= '0' && c <= '9' : c == p; });
  if (!matches) return std::nullopt;
  return path.substr(0, split);
}

bool Exists(const std::string& path) {
  FileInfo info;
  return FileSystem::Posix()->Describe(path, &info) == 0;
}

}  // namespace

std::string UnfinishedHint(const std::string& path) {
  const std::optional<absl::string_view> final_name = FinalNameOfTemporary(path);
  if (!final_name.has_value()) return "";
  return absl::StrCat("this is the temporary file of a save to ", *final_name,
                      " that is not finished or was killed (tensorcask clean tells which)");
}

std::string FileHint(const std::string& path, absl::string_view head) {
  if (const std::optional<std::string> prefix = PrefixOfDataFile(path); prefix.has_value()) {
    const std::string index = absl::StrCat(*prefix, ".index");
    return Exists(index) ? absl::StrCat("this is a data file of a checkpoint: name the checkpoint, ", *prefix)
                         : absl::StrCat("this is a data file of a checkpoint, whose index, ", index, ", is missing");
  }
  if (std::string hint = UnfinishedHint(path); !hint.empty()) return hint;
  for (const Signature& signature : kSignatures) {
    if (absl::StartsWith(head, signature.start)) return std::string(signature.says);
  }
  return OtherHint(path, head);
}

}  // namespace tensorcask::archive
