// Changes names of initializers and the metadata of an ONNX model, and removes initializers, without touching elements.

#ifndef TENSORCASK_SERIALIZE_ONNX_EDIT_MODEL_H_
#define TENSORCASK_SERIALIZE_ONNX_EDIT_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/values/file_edits.h"

namespace tensorcask::onnx {

// Writes a new file that replaces the old one. All bytes stay but those of the names, of the metadata, and the lengths
// of the messages around them; side files are not touched. FORMAT.md section 8 says which places of a name change.
//
// An initializer is renamed with all uses in its graph and in the graphs of nodes in it: inputs and outputs of nodes
// and graphs, value_info, annotations of quantization, bindings of training steps, specifications of sharding. Texts of
// attributes, doc_strings and functions are not changed. Metadata are metadata_props.
//
// Errors, and nothing has changed: those of OnnxReader::Open; NotFound for a tensor that is not there; AlreadyExists
// for a new name that another value of the model has; InvalidArgument for a name that is empty or not UTF-8, for
// metadata that is not UTF-8, and for a field of the model ("onnx.ir_version"); FailedPrecondition for an initializer
// that a removal would take from a node or a graph, for a part of a sparse tensor, for a name that several graphs have,
// for an initializer in a function, and for an options.output in another folder than side files; Unimplemented for a
// tensor or a sequence in a file of its own; AlreadyExists for an options.output that exists; Cancelled; from errno.
absl::StatusOr<FileEditResult> EditModel(const std::string& path, const FileEdits& edits,
                                         const FileEditOptions& options);

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_EDIT_MODEL_H_
