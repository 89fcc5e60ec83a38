// What the first bytes of a file look like, for the error of a reader that wanted another content.
//
//   absl::StatusOr<Header> header = ReadHeader(*file, options);
//   if (!header.ok()) return ExplainContent(header.status(), *file, "safetensors");
//   // DATA_LOSS: m.safetensors: this is a pointer of Git LFS, not the file itself: fetch the file (git lfs pull)
//
// The table of signatures is in content_hint.cc. Looks only after an error, so a good file costs nothing.

#ifndef TENSORCASK_SERIALIZE_IO_CONTENT_HINT_H_
#define TENSORCASK_SERIALIZE_IO_CONTENT_HINT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask {

inline constexpr size_t kContentHeadBytes = 4096;  // what LookAtContent looks at

struct ContentHint {
  std::string format;  // a format of this library: "npz"; "" for all other content
  // A noun with what to do: "a gzip file: decompress it first (gunzip)". "" if the bytes show nothing.
  std::string what;
  bool is_text = false;  // text or JSON: a file of one of the text formats may begin so, too
};

// `head` has the first kContentHeadBytes of a file, or fewer; `file_bytes` is the size of the file.
ContentHint LookAtContent(absl::string_view head, uint64_t file_bytes);

// The error for a file that a reader of `format` refuses with `status`: what the file is instead if its content shows
// that; else, and if it is of this format, `status`. Errors other than DataLoss, InvalidArgument and Unimplemented stay
// as they are. Names the file, as `status` must.
absl::Status ExplainContent(const absl::Status& status, const ByteSource& file, absl::string_view format);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_CONTENT_HINT_H_
