#include "tensorcask/serialize/object_store/internal/xml_answer.h"

#include <expat.h>

#include <climits>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/object_store/internal/http_headers.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::internal {
namespace {

constexpr size_t kMaxXmlLevels = 32;
constexpr size_t kMaxXmlTextBytes = 16 << 10;  // of one element; a key of 1,024 bytes takes 3,072 encoded

// Reports each element that holds text alone, at its end: its path below the root ("Contents/Key") and its text; and
// the end of each other element, with empty text.
using OnElement = std::function<bool(absl::string_view path, absl::string_view text)>;

class XmlReader {
 public:
  explicit XmlReader(OnElement on_element) : on_element_(std::move(on_element)) {}

  // Returns the name of the root element.
  absl::StatusOr<std::string> Read(absl::string_view text) {
    if (text.size() > INT_MAX / 2) return absl::DataLossError("an XML answer is too long");
    const std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser(XML_ParserCreate("UTF-8"), XML_ParserFree);
    if (parser == nullptr) return absl::ResourceExhaustedError("no memory for an XML parser");
    parser_ = parser.get();
    XML_SetUserData(parser_, this);
    XML_SetElementHandler(parser_, OnStart, OnEnd);
    XML_SetCharacterDataHandler(parser_, OnText);
    XML_SetStartDoctypeDeclHandler(parser_, OnDoctype);
    XML_SetParamEntityParsing(parser_, XML_PARAM_ENTITY_PARSING_NEVER);
    const XML_Status status = XML_Parse(parser_, text.data(), static_cast<int>(text.size()), XML_TRUE);
    CASK_RETURN_IF_ERROR(thrown_);
    if (!problem_.empty()) return absl::DataLossError(absl::StrCat("an XML answer ", problem_));
    if (status != XML_STATUS_OK) {
      return absl::DataLossError(absl::StrCat("an answer is not XML: ", XML_ErrorString(XML_GetErrorCode(parser_)),
                                              ", in ", Quoted(text.substr(0, 80))));
    }
    return root_;
  }

 private:
  void Stop(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    XML_StopParser(parser_, XML_FALSE);
  }

  // Calls a function of this reader for expat, which is C and must see no exception.
  template <typename Fn>
  static void Call(void* self, Fn fn) {
    auto* const reader = static_cast<XmlReader*>(self);
    if (!reader->thrown_.ok()) return;
    reader->thrown_ = CatchExceptions([&] {
      fn(reader);
      return absl::OkStatus();
    });
    if (!reader->thrown_.ok()) XML_StopParser(reader->parser_, XML_FALSE);
  }
  static void XMLCALL OnStart(void* self, const XML_Char* name, const XML_Char**) {
    Call(self, [&](XmlReader* reader) { reader->Start(name); });
  }
  static void XMLCALL OnEnd(void* self, const XML_Char*) {
    Call(self, [](XmlReader* reader) { reader->End(); });
  }
  static void XMLCALL OnText(void* self, const XML_Char* text, int bytes) {
    Call(self, [&](XmlReader* reader) { reader->AddText({text, static_cast<size_t>(bytes)}); });
  }
  static void XMLCALL OnDoctype(void* self, const XML_Char*, const XML_Char*, const XML_Char*, int) {
    Call(self, [](XmlReader* reader) { reader->Stop("has a document type, which is not read"); });
  }

  void Start(const XML_Char* name) {
    if (starts_.size() >= kMaxXmlLevels) return Stop("has too many levels");
    starts_.push_back(path_.size());
    text_.clear();
    if (starts_.size() == 1) {
      root_ = name;
      return;
    }
    if (!path_.empty()) path_ += '/';
    path_ += name;
  }

  void End() {
    if (starts_.empty()) return;
    if (starts_.size() > 1 && problem_.empty() && !on_element_(path_, text_)) {
      Stop(absl::StrCat("has a wrong or one too many <", path_, ">"));
    }
    path_.resize(starts_.back());
    starts_.pop_back();
    text_.clear();
  }

  void AddText(absl::string_view text) {
    if (text.size() > kMaxXmlTextBytes - text_.size()) return Stop("has an element that is too long");
    text_.append(text.data(), text.size());
  }

  const OnElement on_element_;
  XML_Parser parser_ = nullptr;
  std::string root_;
  std::string path_;            // below the root
  std::vector<size_t> starts_;  // of the open elements: the size of the path before
  std::string text_;
  std::string problem_;
  absl::Status thrown_;
};

absl::Status ReadDocument(absl::string_view text, absl::string_view wanted_root, OnElement on_element) {
  CASK_ASSIGN_OR_RETURN(const std::string root, XmlReader(std::move(on_element)).Read(text));
  if (root == wanted_root) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("an XML answer is ", Quoted(root), "; ", Quoted(wanted_root), " is wanted"));
}

bool ParseXmlTime(absl::string_view text, int64_t* unix_seconds) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return false;
  *unix_seconds = absl::ToUnixSeconds(time);
  return true;
}

// A key of a page with <EncodingType>url</EncodingType>. Amazon and MinIO encode a space as "+", others as "%20".
std::string DecodedKey(absl::string_view text) { return PercentDecoded(absl::StrReplaceAll(text, {{"+", " "}})); }

}  // namespace

absl::StatusOr<std::string> RootElementOf(absl::string_view text) {
  return XmlReader([](absl::string_view, absl::string_view) { return true; }).Read(text);
}

absl::StatusOr<StoreError> ParseStoreError(absl::string_view text) {
  StoreError error;
  CASK_RETURN_IF_ERROR(ReadDocument(text, "Error", [&](absl::string_view path, absl::string_view value) {
    if (path == "Code") error.code = std::string(value);
    if (path == "Message") error.message = std::string(value);
    if (path == "RequestId") error.request_id = std::string(value);
    if (path == "Region") error.region = std::string(value);
    return true;
  }));
  return error;
}

absl::StatusOr<std::string> ParseUploadId(absl::string_view text) {
  std::string id;
  CASK_RETURN_IF_ERROR(
      ReadDocument(text, "InitiateMultipartUploadResult", [&](absl::string_view path, absl::string_view value) {
        if (path == "UploadId") id = std::string(value);
        return true;
      }));
  if (id.empty()) return absl::DataLossError("an XML answer has no <UploadId>");
  return id;
}

absl::StatusOr<ObjectPage> ParseObjectPage(absl::string_view text) {
  ObjectPage page;
  ListedObject object;
  bool is_truncated = false;
  bool is_encoded = false;
  std::string next;
  CASK_RETURN_IF_ERROR(ReadDocument(text, "ListBucketResult", [&](absl::string_view path, absl::string_view value) {
    if (path == "EncodingType") is_encoded = value == "url";
    if (path == "Contents/Key") object.key = std::string(value);
    if (path == "Contents/LastModified") return ParseXmlTime(value, &object.modified_unix_seconds);
    if (path == "Contents/Size") {
      const std::optional<uint64_t> size = ParseByteCount(value);
      object.size_bytes = size.value_or(0);
      return size.has_value();
    }
    if (path == "Contents") {
      page.objects.push_back(std::move(object));
      object = ListedObject();
      return page.objects.size() <= kMaxKeysInPage;
    }
    if (path == "CommonPrefixes/Prefix") {
      page.folders.emplace_back(value);
      return page.folders.size() <= kMaxKeysInPage;
    }
    if (path == "IsTruncated") is_truncated = value == "true";
    if (path == "NextContinuationToken") next = std::string(value);
    return true;
  }));
  if (is_encoded) {  // which may be said after the keys
    for (ListedObject& listed : page.objects) listed.key = DecodedKey(listed.key);
    for (std::string& folder : page.folders) folder = DecodedKey(folder);
  }
  if (is_truncated && next.empty()) return absl::DataLossError("a page of a list has no <NextContinuationToken>");
  if (is_truncated) page.next = std::move(next);
  return page;
}

absl::StatusOr<UploadPage> ParseUploadPage(absl::string_view text) {
  UploadPage page;
  ListedUpload upload;
  bool is_truncated = false;
  bool is_encoded = false;
  const auto add = [&](absl::string_view path, absl::string_view value) {
    if (path == "EncodingType") is_encoded = value == "url";
    if (path == "Upload/Key") upload.key = std::string(value);
    if (path == "Upload/UploadId") upload.upload_id = std::string(value);
    if (path == "Upload/Initiated") return ParseXmlTime(value, &upload.started_unix_seconds);
    if (path == "Upload") {
      page.uploads.push_back(std::move(upload));
      upload = ListedUpload();
      return page.uploads.size() <= kMaxKeysInPage;
    }
    if (path == "IsTruncated") is_truncated = value == "true";
    if (path == "NextKeyMarker") page.next_key = std::string(value);
    if (path == "NextUploadIdMarker") page.next_upload_id = std::string(value);
    return true;
  };
  CASK_RETURN_IF_ERROR(ReadDocument(text, "ListMultipartUploadsResult", add));
  if (is_encoded) {
    for (ListedUpload& listed : page.uploads) listed.key = DecodedKey(listed.key);
    page.next_key = DecodedKey(page.next_key);
  }
  if (is_truncated && page.next_key.empty()) return absl::DataLossError("a page of uploads has no <NextKeyMarker>");
  if (!is_truncated) page.next_key.clear();
  return page;
}

}  // namespace tensorcask::internal
