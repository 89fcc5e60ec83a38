// ONNX models, and ONNX tensors and sequences in files of their own, as an archive format.
//
//   OnnxFormatOptions options;
//   options.base_model = "base.onnx";
//   const OnnxArchiveFormat onnx(options);
//   CASK_RETURN_IF_ERROR(ConvertArchives({archive.get()}, "tuned.onnx", onnx).status());   // convert_archives.h
//
// A file NAME.pb that is written holds one tensor. A model is made of another one: OnnxFormatOptions::base_model, or
// the model that the tensors come from (ArchiveWriterOptions::source_path). The tensors replace its initializers.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ONNX_FORMAT_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ONNX_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

struct OnnxFormatOptions {
  // Lists the tensors of Constant nodes, too; in a model that is written they may get new elements.
  bool constants = false;
  bool follow_links = true;  // false: side files that are links are refused (OnnxReaderOptions::follow_links)
  std::string base_model;    // what a written model is made of (OnnxWriter::CreateModel); "": source_path
  // The name of the side file for the elements of a model that is written; "" for a name that the format chooses,
  // nullopt for none.
  std::optional<std::string> side_file;
};

class OnnxArchiveFormat final : public ArchiveFormat {
 public:
  explicit OnnxArchiveFormat(OnnxFormatOptions options = {}) : options_(std::move(options)) {}

  absl::string_view name() const override { return "onnx"; }
  std::vector<absl::string_view> extensions() const override { return {".onnx"}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType dtype) const override;
  // A file with one tensor has no metadata. A model keeps the fields ("onnx.ir_version") and the entries of the model
  // that it is made of.
  absl::StatusOr<std::vector<MetadataNotHeld>> CheckMetadata(const MetadataForFile& metadata) const override;
  // Recognizes a model by its content. A tensor or a sequence has no signature, so its extension must also be .pb.
  bool Recognizes(const ArchiveProbe& probe) const override;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> Create(const std::string& path,
                                                        const ArchiveWriterOptions& options) const override;
  absl::StatusOr<FileEditResult> Edit(const std::string& path, const FileEdits& edits,
                                      const FileEditOptions& options) const override;

 private:
  const OnnxFormatOptions options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ONNX_FORMAT_H_
