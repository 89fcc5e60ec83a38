#include "tensorcask/tests/crash/content.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {
namespace {

constexpr char kVersionName[] = "version";

enum class Form { kPlain, kSliced, kExtensionOnly };

struct Named {
  std::string name;
  Tensor tensor;  // has two axes, if it is sliced or extension-only
  Form form = Form::kPlain;
};

// Bytes that depend on version, seed and place.
Tensor Noise(int64_t version, int64_t seed, int64_t count) {
  Tensor tensor = *Tensor::Create(DType::kUint32, TensorShape({count}));
  uint32_t* const values = tensor.mutable_data<uint32_t>();
  uint64_t state = static_cast<uint64_t>(version) * 1000003u + static_cast<uint64_t>(seed);
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values[i] = static_cast<uint32_t>(state >> 32);
  }
  return tensor;
}

Tensor Words(int64_t version) {
  Tensor tensor = *Tensor::Create(DType::kString, TensorShape({40}));
  std::string* const words = tensor.mutable_data<std::string>();
  for (size_t i = 0; i < 40; ++i) words[i] = std::string(i % 7 * 20, static_cast<char>('a' + (version + i) % 26));
  return tensor;
}

Tensor Matrix(int64_t version, int64_t rows, int64_t columns) {
  return *Noise(version, 2, rows * columns).Reshape(TensorShape({rows, columns}));
}

// What travels beside an extension-only tensor.
TensorMetadata MetadataOf(int64_t version) {
  TensorMetadata metadata;
  metadata.name = "kernel of the layer";
  metadata.attributes["version"] = std::string(static_cast<size_t>(5 + version % 2), 'v');
  return metadata;
}

// All tensors of the part, by name.
std::vector<Named> TensorsOf(Content content, int64_t version, Part part) {
  std::vector<Named> all;
  switch (content) {
    case Content::kSmall:
      all.push_back({"bias", Noise(version, 1, 3)});
      all.push_back({"kernel", Noise(version, 2, 6)});
      break;
    case Content::kPages:
      all.push_back({"bias", Noise(version, 1, 3)});
      all.push_back({"kernel", Noise(version, 2, int64_t{3} * 1024)});
      break;
    case Content::kStrings:
      all.push_back({"kernel", Noise(version, 2, 6)});
      all.push_back({"no words", *Tensor::Create(DType::kString, TensorShape({0}))});
      all.push_back({"words", Words(version)});
      break;
    case Content::kMany:
      for (int64_t i = 0; i < 60; ++i) all.push_back({absl::StrCat("layer/", 10 + i), Noise(version, i, 1 + i % 5)});
      break;
    case Content::kDirect:
      all.push_back({"bias", Noise(version, 1, 3)});
      all.push_back({"kernel", Noise(version, 2, int64_t{70} * 256)});
      break;
    case Content::kSliced:
      all.push_back({"bias", Noise(version, 1, 3)});
      all.push_back({"kernel", Matrix(version, 6, 200), Form::kSliced});
      break;
    case Content::kExtensionOnly:
      all.push_back({"bias", Noise(version, 1, 3)});
      all.push_back({"kernel", Matrix(version, 6, 200), Form::kExtensionOnly});
      break;
  }
  all.push_back({kVersionName, Tensor::Scalar<int64_t>(version)});
  std::sort(all.begin(), all.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
  std::vector<Named> chosen;
  for (size_t i = static_cast<size_t>(part.part); i < all.size(); i += static_cast<size_t>(part.of)) {
    chosen.push_back(std::move(all[i]));
  }
  return chosen;
}

absl::Status AddInSlices(const Named& named, CheckpointAddOptions options, int num_shards, CheckpointWriter* writer) {
  for (const char* rows : {"0,1:-", "1,2:-", "3,3:-"}) {
    CASK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Parse(rows));
    CASK_ASSIGN_OR_RETURN(const TensorView piece, TensorView(named.tensor).Slice(slice));
    CASK_RETURN_IF_ERROR(writer->AddSlice(named.name, named.tensor.shape(), slice, piece, options));
    options.shard = (options.shard + 1) % num_shards;
  }
  return absl::OkStatus();
}

// The elements of the tensor, but column by column in memory.
absl::Status AddExtensionOnly(const Named& named, CheckpointAddOptions options, int64_t version,
                              CheckpointWriter* writer) {
  CASK_ASSIGN_OR_RETURN(const TensorView columns, TensorView(named.tensor).Transpose(0, 1));
  CASK_ASSIGN_OR_RETURN(const Tensor by_column, columns.ToTensor());
  CASK_ASSIGN_OR_RETURN(const TensorView view, TensorView(by_column).Transpose(0, 1));
  options.layout = StoredLayout::kPreserve;
  options.metadata = MetadataOf(version);
  return writer->Add(named.name, view, options);
}

bool SameBits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() != DType::kString) return a.bytes() == b.bytes();
  const auto count = static_cast<size_t>(a.num_elements());
  return std::equal(a.data<std::string>(), a.data<std::string>() + count, b.data<std::string>());
}

// OK if these and no other tensors are there, every bit as it should be, and every checksum too.
absl::Status Compare(const CheckpointReader& reader, Content content, int64_t version, Part part) {
  const std::string& prefix = reader.prefix();
  std::vector<std::string> damages;
  CASK_ASSIGN_OR_RETURN(const CheckpointCounts counts, reader.VerifyAll([&](const CheckpointDamage& damage) {
    damages.push_back(damage.status.ToString());
  }));
  if (!damages.empty()) return absl::DataLossError(damages[0]);

  const std::vector<Named> wanted = TensorsOf(content, version, part);
  CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, reader.entries());
  if (entries.size() != wanted.size() || counts.whole != static_cast<int64_t>(wanted.size())) {
    return absl::DataLossError(
        absl::StrCat(prefix, ": has ", entries.size(), " tensors, ", counts.whole, " whole, of ", wanted.size()));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (entries[i].name != wanted[i].name) {
      return absl::DataLossError(absl::StrCat(prefix, ": has ", entries[i].name, " for ", wanted[i].name));
    }
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, reader.Read(wanted[i].name));
    CASK_ASSIGN_OR_RETURN(const TensorMetadata metadata, reader.Metadata(wanted[i].name));
    const bool extension_only = wanted[i].form == Form::kExtensionOnly;
    if (!SameBits(tensor, wanted[i].tensor) || metadata != (extension_only ? MetadataOf(version) : TensorMetadata())) {
      return absl::DataLossError(absl::StrCat(prefix, ": ", wanted[i].name, " is not that of version ", version));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view ContentName(Content content) {
  switch (content) {
    case Content::kSmall:
      return "small";
    case Content::kPages:
      return "3 pages";
    case Content::kStrings:
      return "strings";
    case Content::kMany:
      return "many";
    case Content::kDirect:
      return "direct";
    case Content::kSliced:
      return "sliced";
    case Content::kExtensionOnly:
      return "extension_only";
  }
  return "?";
}

absl::Status AddContent(Content content, int64_t version, int num_shards, CheckpointWriter* writer, Part part) {
  int count = 0;
  for (const Named& named : TensorsOf(content, version, part)) {
    CheckpointAddOptions options;
    options.shard = count++ % num_shards;
    switch (named.form) {
      case Form::kPlain:
        CASK_RETURN_IF_ERROR(writer->Add(named.name, named.tensor, options));
        break;
      case Form::kSliced:
        CASK_RETURN_IF_ERROR(AddInSlices(named, options, num_shards, writer));
        break;
      case Form::kExtensionOnly:
        CASK_RETURN_IF_ERROR(AddExtensionOnly(named, options, version, writer));
        break;
    }
  }
  return absl::OkStatus();
}

absl::Status SaveContent(const std::string& prefix, Content content, int64_t version,
                         const CheckpointWriterOptions& options, Part part) {
  CheckpointWriterOptions with_blocks = options;
  if (content == Content::kMany) with_blocks.index_block_bytes = 512;
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, with_blocks));
  CASK_RETURN_IF_ERROR(AddContent(content, version, options.num_shards, &writer, part));
  if (!options.background) return writer.Finish();
  CASK_ASSIGN_OR_RETURN(BackgroundSave save, writer.FinishInBackground());
  return save.Wait();
}

absl::StatusOr<int64_t> VersionOf(const std::string& prefix, Content content, FileSystem* files) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix, options));
  CASK_ASSIGN_OR_RETURN(const Tensor version_tensor, reader.Read(kVersionName));
  if (version_tensor.dtype() != DType::kInt64 || version_tensor.num_elements() != 1) {
    return absl::DataLossError(absl::StrCat(prefix, ": a version of another kind"));
  }
  const int64_t version = *version_tensor.data<int64_t>();
  CASK_RETURN_IF_ERROR(Compare(reader, content, version, {}));
  return version;
}

absl::Status CheckContent(const std::string& prefix, Content content, int64_t version, FileSystem* files, Part part) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix, options));
  return Compare(reader, content, version, part);
}

bool IsMissing(const absl::Status& opened, const std::string& prefix, FileSystem* files) {
  FileInfo info;
  return absl::IsNotFound(opened) && files->Describe(checkpoint::IndexPath(prefix), &info) == -ENOENT;
}

FileCount CountFiles(const std::string& folder, FileSystem* files) {
  std::vector<std::string> names;
  files->List(folder, &names);
  FileCount count;
  for (const std::string& name : names) ++(absl::StrContains(name, ".tmp-") ? count.temporary : count.standing);
  return count;
}

}  // namespace tensorcask::testing
