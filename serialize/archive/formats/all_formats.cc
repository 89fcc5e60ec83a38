#include "tensorcask/serialize/archive/formats/all_formats.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorcask {
namespace {

template <typename T>
using Field = FormatOption::Field<T>;
using Use = FormatOption::Use;

}  // namespace

AllFormats::AllFormats(const FormatOptions& options, std::vector<std::unique_ptr<const ArchiveFormat>> others)
    : options_(options), others_(std::move(others)) {
  for (const std::unique_ptr<const ArchiveFormat>& format : others_) list_.push_back(format.get());
}

absl::Span<const FormatOption> FormatOptionList() {
  static const auto* const options = new std::vector<FormatOption>{
      {"opaque-dtype",
       "",
       {"npy", "npz", "hdf5"},
       Use::kReading,
       "The dtype of opaque elements (V1, V2, ...) of npy, npz and HDF5 files: NumPy stores float8 and int4 as such, "
       "and Keras bfloat16",
       Field<DType>([](FormatOptions* o) { return &o->npy.dtype_of_opaque_elements; })},
      {"stored",
       "stored",
       {"gguf"},
       Use::kReading,
       "Tensors in blocks of GGUF files are the bytes of their blocks, as uint8",
       Field<bool>([](FormatOptions* o) { return &o->gguf.blocks_as_bytes; })},
      {"constants",
       "constants",
       {"onnx"},
       Use::kReading,
       "Of an ONNX model, also the tensors of Constant nodes",
       Field<bool>([](FormatOptions* o) { return &o->onnx.constants; })},
      {"no-links",
       "links",
       {"onnx"},
       Use::kReading,
       "Refuse side files of an ONNX model that are links, also those that stay in its folder",
       Field<bool>([](FormatOptions* o) { return &o->onnx.follow_links; })},
      {"opaque-objects",
       "opaque_objects",
       {"torch", "dcp"},
       Use::kReading,
       "Read a file of torch.save whose pickle names classes that are not known: their names, and nothing else",
       Field<bool>([](FormatOptions* o) { return &o->torch.opaque_objects; })},
      {"no-checksums",
       "checksums",
       {"safetensors"},
       Use::kWriting,
       "safetensors: store no checksums; with --alignment 8 the bytes are those of safetensors 0.8.0",
       Field<bool>([](FormatOptions* o) { return &o->safetensors.checksums; })},
      {"shard-size",
       "max_shard_bytes",
       {"safetensors"},
       Use::kWriting,
       "safetensors: begin another file after SIZE bytes of tensors (500MB, 2GiB); the default for an index as DST is "
       "5GB",
       Field<uint64_t>([](FormatOptions* o) { return &o->safetensors.max_shard_bytes; })},
      {"replace-in",
       "replace_in",
       {"onnx"},
       Use::kWriting,
       "Make an ONNX model of this one: the tensors replace its initializers",
       Field<std::string>([](FormatOptions* o) { return &o->onnx.base_model; })},
      {"external",
       "external",
       {"onnx"},
       Use::kWriting,
       "Store the elements of an ONNX model in a side file, DST.data or --external=NAME",
       Field<std::optional<std::string>>([](FormatOptions* o) { return &o->onnx.side_file; })},
  };
  return *options;
}

FormatOptions ForCopies(FormatOptions reading, FormatOptions writing) {
  for (const FormatOption& option : FormatOptionList()) {
    if (option.use != Use::kReading) continue;
    std::visit([&](auto field) { *field(&writing) = *field(&reading); }, option.field);
  }
  return writing;
}

std::string NotForFormat(const FormatOption& option, absl::string_view called, const ArchiveFormat& format) {
  if (std::find(option.formats.begin(), option.formats.end(), format.name()) != option.formats.end()) return "";
  return absl::StrCat(called, " is for ", absl::StrJoin(option.formats, " and "), " files, not for ",
                      format.name_with_article(), " file");
}

}  // namespace tensorcask
