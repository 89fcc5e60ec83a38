// For numpy_test.py: copies an npy or npz file with our reader and our writer.
//
//   npy_copy IN OUT [column] [big] [unicode] [deflate]

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npy_writer.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {
namespace {

absl::Status CopyNpy(const std::string& from, const std::string& to, const NpyFormat& format) {
  CASK_ASSIGN_OR_RETURN(const NpyReader reader, NpyReader::Open(from));
  CASK_ASSIGN_OR_RETURN(const TensorView view, reader.ReadView());
  NpyWriterOptions options;
  options.format = format;
  CASK_ASSIGN_OR_RETURN(NpyWriter writer, NpyWriter::Create(to, options));
  CASK_RETURN_IF_ERROR(writer.Add(view, reader.entries()[0].metadata));
  return writer.Finish();
}

absl::Status CopyNpz(const std::string& from, const std::string& to, const NpyFormat& format, int level) {
  CASK_ASSIGN_OR_RETURN(const NpzReader reader, NpzReader::Open(from));
  NpzWriterOptions options;
  options.format = format;
  options.deflate_level = level;
  CASK_ASSIGN_OR_RETURN(NpzWriter writer, NpzWriter::Create(to, options));
  for (const NpyEntry& entry : reader.entries()) {
    CASK_ASSIGN_OR_RETURN(const TensorView view, reader.Map(entry.name));
    NpzAddOptions add;
    add.metadata = entry.metadata;
    CASK_RETURN_IF_ERROR(writer.Add(entry.name, view, add));
  }
  return writer.Finish();
}

int Main(int argc, char** argv) {
  if (argc < 3) return 2;
  NpyFormat format;
  format.order = NpyOrder::kPreserve;
  int level = 0;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "column") format.order = NpyOrder::kColumnMajor;
    if (word == "big") format.big_endian = true;
    if (word == "unicode") format.strings = NpyStrings::kUnicode;
    if (word == "deflate") level = 6;
  }
  const std::string from = argv[1];
  const absl::Status status =
      absl::EndsWith(from, ".npz") ? CopyNpz(from, argv[2], format, level) : CopyNpy(from, argv[2], format);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace tensorcask

int main(int argc, char** argv) { return tensorcask::Main(argc, argv); }
