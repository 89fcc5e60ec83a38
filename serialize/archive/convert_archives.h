// Copies the tensors of archives into another archive, of any format, in bounded memory.
//
//   ConvertOptions options;
//   options.exclude = {"*/Adam*"};
//   CASK_ASSIGN_OR_RETURN(const ConvertReport report,
//                         ConvertArchives({archive.get()}, "slim.safetensors", safetensors, options));
//
// ConvertArchives is PlanConversion, CreateArchive and RunConversion, with the options for the writer that the plan
// asks for. An archive of the same name is replaced only with ArchiveWriterOptions::overwrite, and no file that the
// call reads is lost by that (serialize/io/replaced_files.h).
//
// If tensors of a checkpoint of TensorFlow's objects get other names or are left out, its object graph
// (serialize/checkpoint/object_graph.h) gets the new names and loses the objects that have no value: TensorFlow
// restores the rest. With `include` a checkpoint that is copied to another one brings its graph along, unless `exclude`
// names it. ConvertOptions::exclude_slots leaves all slots of optimizers out. A graph has no dtypes: after DTypeRules,
// TensorFlow restores into variables of the new dtypes only.
//
// Values beside the tensors (ArchiveReader::Values) follow one rule for all formats:
//   - A target that is nested (ArchiveTraits::nested) gets the tree of a source whose tensors are in its values, such
//     as a file of torch.save. Tensors with a new name become entries of the root.
//   - Other targets get each value under its path ("optimizer.lr"; ExactName where two have one name): as a value if
//     they have types (ArchiveTraits::values); else, if they have FileMetadata, as text, with an entry
//     "tensorcask.values" that says which texts are values of which type. Numbers, bools, None and texts have a text,
//     and so have lists of one of these (serialize/values/value_text.h). All formats read such texts as values again,
//     and a nested target gets those that were beside tensors as entries of its root.
//   - Opaque objects are a loss. ConversionPlan::notes and ConvertReport::notes name what else is not copied: bytes,
//     complex numbers, arrays that are still in the file; all values if the target has no metadata.
// `include` and `exclude` choose values by their names, too, but not metadata. unset_metadata leaves values out, and
// the prefix of a source is put before their names.
//
// PlanConversion reads no elements but those of such a graph, and strings for a target that cannot hold all of them
// (ArchiveTraits::padded_strings); the plan says what the target cannot hold. RunConversion copies large tensors in
// blocks if both formats allow that (ArchiveEntry::reads_in_blocks, ArchiveWriter::writes_in_blocks), and reads up to
// kReadAheadBytes of blocks ahead. For row-major tensors of numbers all formats of this library except text allow it,
// so memory does not depend on the size of such tensors. But these must fit in memory, one at a time, with up to
// kReadAheadBytes of the next ones:
//   - from any format: strings and other objects; tensors with strides, which the target keeps
//   - from a checkpoint: deltas, and tensors that are stored in slices; all tensors of a V1 checkpoint
//   - from npz: deflated arrays of up to 8 MiB, fields of deflated structures. From safetensors: elements below 8 bits
//   - from PyTorch: deflated records, conjugate and negative views. From HDF5: chunks with filters
//   - from ONNX: values in typed fields, elements below 8 bits
//   - from records and messages: payloads, values in typed fields, elements with a checksum of their own
//   - to a checkpoint, records or a message with ArchiveWriterOptions::level above kStored: the encoder first
//     samples the whole tensor. (npz deflates block by block.)

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_CONVERT_ARCHIVES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_CONVERT_ARCHIVES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/archive/dtype_rule.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

inline constexpr uint64_t kReadAheadBytes = uint64_t{64} << 20;

struct ConversionPlan;

struct ConvertOptions {
  std::vector<std::string> include;  // shell patterns; empty: all tensors
  std::vector<std::string> exclude;
  bool exclude_slots = false;  // leaves out what optimizers keep beside the variables (ArchiveReader::OptimizerSlots)
  // The new name of each tensor, or an error that ends the conversion; null: names stay. CompileRenames
  // (rename_rules.h) makes one of the rules of `convert --rename`.
  std::function<absl::StatusOr<std::string>(absl::string_view)> rename;
  // The new names of tensors of sources that have none (ArchiveReader::has_names), instead of those of their files.
  std::map<const ArchiveReader*, std::string> names;
  // What is put in front of all names of a source, after `rename`: "base/" makes "base/w" of "w".
  std::map<const ArchiveReader*, std::string> prefixes;
  // Converts elements (tensor/strided/convert.h). The first rule that applies to the old name and dtype counts.
  std::vector<DTypeRule> dtypes;
  // Metadata of the target: set_metadata replaces or adds entries, unset_metadata leaves out those with these keys,
  // each of which at least one source must have. If two sources have different values of a key, one of these two must
  // name the key (or allow_loss keeps the first value).
  FileMetadata set_metadata;
  std::set<std::string> unset_metadata;
  // Leaves out what the target cannot hold, instead of failing: metadata, strides, the imaginary parts of numbers that
  // become real, and tensors whose dtype, name, shape or strings it cannot hold, and tensors that the source only lists
  // (ArchiveEntry::read_status). Tensors of a dtype that it holds opaquely (ArchiveFormat::StoresAsRawBytes) lose only
  // the name of their dtype.
  bool allow_loss = false;
  uint64_t block_bytes = uint64_t{1} << 20;  // small enough for the cache that processors share
  int num_threads = 2;                       // one writes, the others read ahead
  // Called after each tensor and each block; false ends the conversion with Cancelled.
  std::function<bool(int64_t tensors, uint64_t bytes)> progress;
  // Called once, when all checks are made that need no elements, before the first element is read. ConvertArchives also
  // calls it, without files to replace, if the target can hold none of the tensors. Its plan has no file_metadata,
  // which the writer has by then, and no values.
  std::function<void(const ConversionPlan& plan, const ReplacedFiles& replaced)> planned;
  bool dry_run = false;  // ConvertArchives makes all checks that need no elements and writes nothing
};

// One thing that the target does not get.
struct ConvertLoss {
  enum class Kind {
    kNotReadable,  // a tensor that the source only lists (ArchiveEntry::read_status)
    kDType,        // a tensor whose dtype the target cannot hold
    kTensor,       // a tensor whose name, shape or strings it cannot hold
    kDTypeName,    // the name of a dtype
    kImaginary,    // the imaginary parts: complex numbers became real
    kAcrossKinds,  // not lost: a rule gives the tensor numbers of another kind or range, so values may differ
    kUntied,       // not lost: an alias (ArchiveEntry::alias_of) becomes a copy
    kStrides,
    kMetadata,
    kFileMetadata,
    kValue,  // a value beside the tensors
  };
  Kind kind;
  std::string tensor;   // "" for kFileMetadata and kValue
  std::string message;  // a sentence
};

// Only what differs from `from`: a plan has no second list of the tensors.
struct ConversionItem {
  const ArchiveReader* source = nullptr;
  const ArchiveEntry* from = nullptr;   // an entry of the source
  std::optional<std::string> new_name;  // nullopt: that of `from`
  std::string alias_of;                 // ArchiveEntry::alias_of in the target
  DType dtype = DType::kInvalid;        // in the target
  bool keep_strides = false;            // the target stores them
  bool keep_encoding = false;           // the target stores the bytes of the encoding, which `from` has
  bool keep_shard = false;              // likewise the number of the data file
  bool keep_metadata = false;           // the target holds it
  bool drop_name = false;               // ... except the name in it (ArchiveTraits::one_name)
  std::optional<Tensor> content;        // the elements, if they are not those of `from`

  const std::string& name() const { return new_name.has_value() ? *new_name : from->name; }
  bool has_strides() const { return keep_strides && !from->strides.empty(); }
  ArchiveEntry to() const;  // the entry of the tensor in the target
};

struct ConversionPlan {
  std::vector<const ArchiveReader*> sources;
  std::vector<ConversionItem> items;  // in the order of the files of the sources
  std::vector<ConvertLoss> losses;    // without options.allow_loss only kAcrossKinds and kUntied
  const ArchiveFormat* target = nullptr;
  FileSystem* file_system = FileSystem::Posix();  // where the new file is
  // For ArchiveWriterOptions:
  FileMetadata file_metadata;
  std::vector<FileValue> values;
  std::shared_ptr<const ArchiveValues> nested;  // null: none is copied
  int num_shards = 1;
  bool store_opaquely = false;     // an item is of a dtype that the target holds opaquely
  uint64_t bytes = 0;              // the size of the elements that will be read
  std::vector<std::string> notes;  // sentences on values that are not copied
};

struct ConvertReport {
  int64_t tensors = 0;
  uint64_t bytes = 0;                // the size of the elements as written
  uint64_t file_bytes = 0;           // the size of all files; 0 if the format does not tell
  std::vector<ConvertLoss> losses;   // as ConversionPlan::losses
  std::vector<std::string> removed;  // files of the replaced archive that were removed; in a dry run: would be
  std::vector<std::string> notes;    // sentences on files of the replaced archive that stay
};

// Copies the tensors of `sources` to an archive at `path`.
// The plan replaces num_shards, file_metadata, values and store_opaquely of `write`; num_threads is at least that of
// `options` where data files or encoding can use threads.
// Errors: those of PlanConversion, CreateArchive and RunConversion; FailedPrecondition if there are tensors and the
// target can hold none; InvalidArgument if it holds one tensor and several would remain.
absl::StatusOr<ConvertReport> ConvertArchives(absl::Span<const ArchiveReader* const> sources, const std::string& path,
                                              const ArchiveFormat& target, const ConvertOptions& options = {},
                                              const ArchiveWriterOptions& write = {});

// The sources and the target must outlive the plan. Tensors that the target can store in their encoding, such as the
// blocks of GGUF, are copied bit by bit unless a rule gives them a dtype. Errors: InvalidArgument, naming all tensors
// that would lose something and what, unless options.allow_loss is set; or if two sources have different values of one
// key of their metadata; or for a key that is set and unset; NotFound for a key of unset_metadata that no source has;
// AlreadyExists if two tensors would have one name; FailedPrecondition, naming the tensor, if an object graph cannot
// follow (checkpoint/edit_graph.h). A plan may have no items. A "format" in the metadata that names a framework
// (archive::IsFrameworkNote) does not count as a loss if the target has no metadata. Metadata that the target cannot
// hold (ArchiveFormat::CheckMetadata) is a loss if a source has it; if the options set it, or unset an entry that
// stays, that is InvalidArgument. `file` is the new file, for rules that depend on its name.
absl::StatusOr<ConversionPlan> PlanConversion(absl::Span<const ArchiveReader* const> sources,
                                              const ArchiveFormat& target, const ConvertOptions& options = {},
                                              const NewFile& file = {});

// What a file of `target` cannot hold of the metadata of `source` and of the values beside its tensors, as sentences:
// what such a plan with allow_loss says of them. For copies that are not made by a plan.
std::vector<std::string> NotHeldBesideTensors(const ArchiveReader& source, const ArchiveFormat& target);

// The tensors that cannot be read (ArchiveEntry::read_status), as sentences: on each of the first hundred, and on how
// many more there are. For copies that leave them out.
std::vector<std::string> UnreadableTensors(const ArchiveReader& source);

// Declares, adds and finishes. Errors: those of the sources and the writer; FailedPrecondition if a file of a source
// would be lost (CheckSourcesStay); Cancelled.
absl::StatusOr<ConvertReport> RunConversion(const ConversionPlan& plan, const ConvertOptions& options,
                                            ArchiveWriter* writer);

// The tensor with its metadata, for a copy; row-major if the strides of `reader` are only an order
// (ArchiveReader::strides_only_permute). If the metadata cannot be read: an error that says so, or with `allow_loss`
// the tensor without the metadata that cannot be read.
absl::StatusOr<DecodedTensor> ReadForCopy(const ArchiveReader& reader, const ArchiveEntry& entry, bool allow_loss);

// True if `name` matches one of the shell patterns (tensor/base/glob.h).
bool MatchesAny(const std::vector<std::string>& globs, const std::string& name);

// The entries that match one of `include` (all if it is empty) and none of `exclude`, in the order of the file. They
// point into `entries`. A pattern without '*' and '?' that is a name chooses this tensor alone: "x[0]" does not choose
// "x0", too. Requires: `entries` are sorted by name, as those of a reader are.
std::vector<const ArchiveEntry*> SelectEntries(const std::vector<ArchiveEntry>& entries,
                                               const std::vector<std::string>& include,
                                               const std::vector<std::string>& exclude);

// The same for the entries of a reader; `exclude_slots` leaves out its OptimizerSlots. Errors: those of
// ArchiveReader::OptimizerSlots.
absl::StatusOr<std::vector<const ArchiveEntry*>> SelectEntries(const ArchiveReader& source,
                                                               const std::vector<std::string>& include,
                                                               const std::vector<std::string>& exclude,
                                                               bool exclude_slots);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_CONVERT_ARCHIVES_H_
