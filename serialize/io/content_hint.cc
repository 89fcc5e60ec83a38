#include "tensorcask/serialize/io/content_hint.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

using namespace std::literals;  // NOLINT(google-build-using-namespace): ""sv keeps NUL bytes

constexpr absl::string_view kPickle =
    "a pickle of Python, which is a program: tensorcask reads only those in files of torch.save";

struct Signature {
  size_t offset;
  std::string_view bytes;
  absl::string_view what;
};

// The first that fits counts.
constexpr Signature kSignatures[] = {
    {0, "version https://git-lfs."sv, "a pointer of Git LFS, not the file itself: fetch the file (git lfs pull)"},
    {0, "\x1f\x8b\x08"sv, "a gzip file: decompress it first (gunzip)"},
    {0, "\x28\xb5\x2f\xfd"sv, "a file compressed with Zstandard: decompress it first (unzstd)"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "a file compressed with xz: decompress it first (unxz)"},
    {0, "BZh"sv, "a file compressed with bzip2: decompress it first (bunzip2)"},
    {0, "\x04\x22\x4d\x18"sv, "a file compressed with LZ4: decompress it first (unlz4)"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive: unpack it first (7z x)"},
    {257, "ustar"sv, "a tar archive: unpack it first (tar xf)"},
    {4, "TFL3"sv, "a TensorFlow Lite model, a format that this version does not read"},
    {0, "\x80\2"sv, kPickle},
    {0, "\x80\3"sv, kPickle},
    {0, "\x80\4"sv, kPickle},
    {0, "\x80\5"sv, kPickle},
    {0, "\x89PNG\r\n\x1a\n"sv, "an image (PNG)"},
    {0, "\xff\xd8\xff"sv, "an image (JPEG)"},
    {0, "GIF8"sv, "an image (GIF)"},
    {0, "%PDF-"sv, "a PDF document"},
    {0,
     "\x7f"
     "ELF"sv,
     "a program (ELF)"},
    {0, "model_checkpoint_path:"sv,
     "the list of the checkpoints in its folder: give the folder (for the latest checkpoint) or the path of one"},
};

constexpr size_t kShownBytes = 48;  // how much of a text is shown

// Without what may stand before the first character of a document: a byte order mark and spaces.
absl::string_view TextStart(absl::string_view head) {
  if (absl::StartsWith(head, "\xef\xbb\xbf")) head.remove_prefix(3);
  return absl::StripLeadingAsciiWhitespace(head);
}

// What stands between `begin` and the next '<', such as a title; "" if there is no such thing.
std::string Element(absl::string_view head, absl::string_view begin) {
  const std::string lower = absl::AsciiStrToLower(head);
  const size_t at = lower.find(std::string(begin));
  if (at == std::string::npos) return "";
  const absl::string_view rest = head.substr(at + begin.size());
  const absl::string_view text = absl::StripAsciiWhitespace(rest.substr(0, rest.find('<')));
  return text.empty() ? "" : absl::StrCat(", ", Quoted(text, kShownBytes));
}

// True if `head`, which may be cut inside a character, is text without control characters.
bool IsText(absl::string_view head) {
  for (const char c : head) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) && !absl::ascii_isspace(static_cast<unsigned char>(c))) {
      return false;
    }
  }
  constexpr size_t kMaxCut = 3;  // bytes of a character whose end is missing
  for (size_t cut = 0; cut <= std::min(kMaxCut, head.size()); ++cut) {
    if (internal::IsUtf8(head.substr(0, head.size() - cut))) return true;
  }
  return false;
}

ContentHint LookAtText(absl::string_view head) {
  const absl::string_view start = TextStart(head);
  for (const absl::string_view tag : {"<!doctype html", "<html", "<head", "<body"}) {
    if (absl::StartsWithIgnoreCase(start, tag)) {
      return {"", absl::StrCat("a web page (HTML", Element(start, "<title>"),
                               "), not the file itself: download the file again")};
    }
  }
  if (absl::StartsWith(start, "<?xml") || absl::StartsWith(start, "<Error>")) {
    return {"", absl::StrCat("an XML document (such as the error of a store", Element(start, "<code>"),
                             "), not the file itself: download the file again")};
  }
  const std::string shown = Quoted(absl::StripTrailingAsciiWhitespace(start), kShownBytes);
  if (absl::StartsWith(start, "{") || absl::StartsWith(start, "[")) {
    if (absl::StrContains(start, "\"weight_map\"")) {
      const bool is_torch = absl::StrContains(start, ".bin\"") && !absl::StrContains(start, ".safetensors\"");
      return {is_torch ? "torch" : "safetensors", "the index of a model in several files"};
    }
    return {"", absl::StrCat("JSON text: ", shown), /*is_text=*/true};
  }
  return {"", absl::StrCat("text: ", shown), /*is_text=*/true};
}

// "conv1.npy" for the first member of a zip file; "" if `head` does not begin with one.
absl::string_view FirstMember(absl::string_view head) {
  constexpr size_t kHeaderBytes = 30;
  constexpr size_t kNameLength = 26;
  if (!absl::StartsWith(head, "PK\3\4") || head.size() < kHeaderBytes) return "";
  return head.substr(kHeaderBytes, LoadLittleEndian<uint16_t>(head.data() + kNameLength));
}

// The formats of this library that have a signature.
ContentHint LookForOwnFormat(absl::string_view head) {
  constexpr size_t kLengthBytes = 8;
  constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 40;
  if (absl::StartsWith(head, "\x93NUMPY")) return {"npy", "an npy file"};
  if (absl::StartsWith(head, "GGUF")) return {"gguf", "a GGUF file"};
  if (absl::StartsWith(head, "\x89HDF\r\n\x1a\n")) return {"hdf5", "an HDF5 file"};
  if (absl::EndsWith(FirstMember(head), ".npy")) return {"npz", "an npz file"};
  if (absl::EndsWith(FirstMember(head), "/data.pkl") || absl::EndsWith(FirstMember(head), "/data/0"))
    return {"torch", "a PyTorch file (torch.save)"};
  if (absl::StartsWith(head, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")) {
    return {"torch", "a PyTorch file (torch.save, before 1.6)"};
  }
  if (head.size() < kLengthBytes + sizeof(uint32_t)) return {};
  const auto length = LoadLittleEndian<uint64_t>(head.data());
  if (MaskCrc32c(Crc32c(head.substr(0, kLengthBytes))) == LoadLittleEndian<uint32_t>(head.data() + kLengthBytes)) {
    return {"records", "a file of records"};
  }
  const absl::string_view header = head.substr(kLengthBytes);
  const bool has_key = absl::StrContains(header, "\"dtype\"") || absl::StrContains(header, "\"__metadata__\"");
  if (length < kMaxHeaderBytes && has_key && absl::StartsWith(TextStart(header), "{\"")) {
    return {"safetensors", "a safetensors file"};
  }
  return {};
}

ContentHint LookAtZip(absl::string_view member) {
  return {"npz", absl::StrCat("a zip file whose first member, ", Quoted(member),
                              ", is not an array of NumPy (.npy): not an npz file")};
}

// A stream of zlib (RFC 1950) with the window that all programs use. Small numbers begin with the same two bytes, and
// go on with zeros.
bool IsZlib(absl::string_view head) {
  constexpr size_t kLengthBytes = 8;
  if (head.size() < kLengthBytes || head[0] != '\x78') return false;
  return absl::string_view("\x01\x5e\x9c\xda", 4).find(head[1]) != absl::string_view::npos && (head[2] & 6) != 6 &&
         head.substr(2, kLengthBytes - 2).find_first_not_of('\0') != absl::string_view::npos;
}

// A ModelProto of ONNX begins with the version of its form (a small number in field 1), then the name of the program
// that wrote it (text in field 2).
bool IsOnnx(absl::string_view head) {
  constexpr size_t kNameAt = 4;
  if (head.size() < kNameAt + 2 || head[0] != '\x08' || head[1] < 1 || head[1] > 32 || head[2] != '\x12') return false;
  const auto size = static_cast<unsigned char>(head[3]);
  const absl::string_view name = head.substr(kNameAt, size);
  return size >= 2 && name.size() == size && std::all_of(name.begin(), name.end(), absl::ascii_isprint);
}

}  // namespace

ContentHint LookAtContent(absl::string_view head, uint64_t file_bytes) {
  head = head.substr(0, kContentHeadBytes);
  if (file_bytes == 0) return {"", "an empty file"};
  if (head.empty()) return {};
  if (head.find_first_not_of('\0') == absl::string_view::npos) {
    return {"", absl::StrCat("a file of zeros (its first ", head.size(), head.size() == 1 ? " byte" : " bytes",
                             "): an incomplete download or copy?")};
  }
  if (ContentHint own = LookForOwnFormat(head); !own.what.empty()) return own;
  for (const Signature& signature : kSignatures) {
    const absl::string_view bytes(signature.bytes.data(), signature.bytes.size());
    if (head.size() > signature.offset && absl::StartsWith(head.substr(signature.offset), bytes)) {
      return {"", std::string(signature.what)};
    }
  }
  if (absl::StartsWith(head, "PK\5\6")) return {"npz", "an empty zip archive"};
  if (const absl::string_view member = FirstMember(head); !member.empty()) return LookAtZip(member);
  if (IsZlib(head)) return {"", "a file compressed with zlib: decompress it first"};
  if (IsOnnx(head)) return {"onnx", "an ONNX model"};
  return IsText(head) ? LookAtText(head) : ContentHint{};
}

absl::Status ExplainContent(const absl::Status& status, const ByteSource& file, absl::string_view format) {
  if (!absl::IsDataLoss(status) && !absl::IsInvalidArgument(status) && !absl::IsUnimplemented(status)) return status;
  std::string head(std::min<uint64_t>(kContentHeadBytes, file.size_bytes()), '\0');
  if (!file.ReadAt(0, absl::MakeSpan(&head[0], head.size())).ok()) return status;
  const ContentHint hint = LookAtContent(head, file.size_bytes());
  if (hint.what.empty() || hint.format == format) return status;
  if (hint.is_text) return AppendToMessage(status, absl::StrCat("; this looks like ", hint.what));
  return absl::DataLossError(absl::StrCat(file.name(), ": this is ", hint.what,
                                          hint.format.empty() ? "" : absl::StrCat(", not of the format ", format)));
}

}  // namespace tensorcask
