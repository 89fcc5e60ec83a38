// Text as an XML answer of an S3 store: what any of its readers takes has bounded sizes, and is of one kind only.
//
// Is to reach what input can reach of these files:
//   serialize/object_store/internal/xml_answer*

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/serialize/object_store/internal/xml_answer.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ::tensorcask::internal;  // NOLINT(google-build-using-namespace)
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<std::string> root = RootElementOf(text);
  const absl::StatusOr<StoreError> error = ParseStoreError(text);
  const absl::StatusOr<std::string> upload_id = ParseUploadId(text);
  const absl::StatusOr<ObjectPage> objects = ParseObjectPage(text);
  const absl::StatusOr<UploadPage> uploads = ParseUploadPage(text);
  const int taken = error.ok() + upload_id.ok() + objects.ok() + uploads.ok();
  FUZZ_CHECK(taken <= 1 && (taken == 0 || root.ok()), "a document of two kinds, or of no root");
  if (error.ok()) FUZZ_CHECK(error->code.size() + error->message.size() <= size, "an error longer than its document");
  if (upload_id.ok()) FUZZ_CHECK(!upload_id->empty() && upload_id->size() <= size, *upload_id);
  if (objects.ok()) {
    FUZZ_CHECK(objects->objects.size() <= kMaxKeysInPage && objects->folders.size() <= kMaxKeysInPage, "too many");
    for (const ListedObject& object : objects->objects) {
      FUZZ_CHECK(PercentDecoded(PercentEncoded(object.key)) == object.key, object.key);
      FUZZ_CHECK(object.size_bytes <= uint64_t{1} << 62, "a size that overflows when two are added");
    }
  }
  if (uploads.ok()) FUZZ_CHECK(uploads->uploads.size() <= kMaxKeysInPage, "too many");
  return 0;
}
