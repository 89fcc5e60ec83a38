// Changes names of tensors and the metadata of a GGUF file and removes tensors, without decoding the elements that
// stay.

#ifndef TENSORCASK_SERIALIZE_GGUF_EDIT_FILE_H_
#define TENSORCASK_SERIALIZE_GGUF_EDIT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/values/file_edits.h"

namespace tensorcask::gguf {

// Writes a new file with a new header, in the version and the byte order of the old one, and the data of the tensors
// that stay. The system copies them; a file system that can share bytes between files shares them, and then a key
// "tensorcask.padding" (FORMAT.md section 3.4) makes them begin at the old offset modulo 4096. A text of set_metadata
// is a value as GgufWriter::SetParsed has it; the value that it replaces gives the type. Errors, and nothing has
// changed: those of GgufReader::Open; NotFound for a tensor that is not there; InvalidArgument for names and values
// that the format cannot hold; AlreadyExists for an options.output that exists; Cancelled; from errno.
//
// In a model in several files, the first part gets new keys; a key that other parts repeat changes there, too, and
// split.tensors.count counts what is left. options.output is the name of the first part ("x-00001-of-00003.gguf"), and
// all parts are written; the first one appears last, so the model is there whole or not at all. Without options.output
// one part alone is replaced. Errors: also FailedPrecondition if several would change, which no file system replaces at
// one moment; InvalidArgument for an options.output that ends otherwise, and for removing a key that says which part a
// file is (FORMAT.md section 3.3).
absl::StatusOr<FileEditResult> EditGguf(const std::string& path, const FileEdits& edits,
                                        const FileEditOptions& options);

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_EDIT_FILE_H_
