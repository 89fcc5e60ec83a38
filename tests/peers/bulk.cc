// Writes and reads checkpoints for the tests with other programs: many tensors in one call, as plain bytes.
//
//   bulk write PREFIX [OPTION...]  saves the tensors from stdin
//   bulk read PREFIX [MODE]        prints the tensors of a checkpoint; MODE: read (default), map, all, or each, which
//                                  prints a tensor that cannot be read as one of dtype "error", with the message
//   bulk slices PREFIX             for each line "NAME SLICE" from stdin, prints that part of the tensor
//   bulk merge TARGET SOURCE...    merges checkpoints
//   bulk sharded PREFIX RANKS      saves the tensors from stdin as a job of so many ranks; SHARD is the rank that has
//   one
//
// OPTION: --shards=N --alignment=N --level=stored|default|high --overwrite --preserve. With --preserve the writer
// stores the last two axes of a tensor exchanged, without a copy of the elements, so that the tensor has strides.
//
// A tensor is a line "NAME DTYPE SHAPE SHARD SLICE BYTES", and then this many bytes. NAME is in hex; SHAPE is "2,3", or
// "-" for a scalar; SLICE is as in TensorSlice::Parse, or "*" for the whole tensor. Of a slice, SHAPE is that of the
// whole and the bytes are those of the slice. Elements are row-major and little-endian; a string is its length as 8
// bytes and its bytes.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/hex.h"

namespace tensorcask {
namespace {

struct Item {
  std::string name;
  Tensor tensor;
  TensorShape full_shape;
  std::optional<TensorSlice> slice;
  int shard = 0;
};

absl::StatusOr<TensorShape> ParseShape(absl::string_view text) {
  std::vector<int64_t> dims;
  if (text != "-") {
    for (const absl::string_view dim : absl::StrSplit(text, ',')) {
      if (!absl::SimpleAtoi(dim, &dims.emplace_back())) return absl::InvalidArgumentError(absl::StrCat("dim ", dim));
    }
  }
  return TensorShape::Create(dims);
}

absl::Status FillStrings(absl::string_view bytes, Tensor* tensor) {
  for (std::string& element : tensor->mutable_flat<std::string>()) {
    if (bytes.size() < sizeof(uint64_t)) return absl::DataLossError("strings are cut short");
    const uint64_t size = LoadLittleEndian<uint64_t>(bytes.data());
    bytes.remove_prefix(sizeof(uint64_t));
    if (size > bytes.size()) return absl::DataLossError("strings are cut short");
    element = std::string(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return bytes.empty() ? absl::OkStatus() : absl::DataLossError("bytes behind the last string");
}

absl::StatusOr<Tensor> MakeTensor(DType dtype, const TensorShape& shape, absl::string_view bytes) {
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(dtype, shape));
  if (dtype == DType::kString) {
    CASK_RETURN_IF_ERROR(FillStrings(bytes, &tensor));
    return tensor;
  }
  if (!IsFixedSize(dtype) || tensor.bytes().size() != bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes for ", DTypeName(dtype), " ", shape.ToString()));
  }
  if (!bytes.empty()) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
  return tensor;
}

absl::StatusOr<std::optional<Item>> ReadItem(std::istream& in) {
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  Item item;
  uint64_t num_bytes = 0;
  if (words.size() != 6 || !absl::SimpleAtoi(words[3], &item.shard) || !absl::SimpleAtoi(words[5], &num_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("not a line of six words: ", line));
  }
  item.name = testing::BytesOfHex(words[0]);
  CASK_ASSIGN_OR_RETURN(const DType dtype, ParseDType(words[1]));
  CASK_ASSIGN_OR_RETURN(item.full_shape, ParseShape(words[2]));
  TensorShape shape = item.full_shape;
  if (words[4] != "*") {
    CASK_ASSIGN_OR_RETURN(item.slice, TensorSlice::Parse(words[4]));
    CASK_ASSIGN_OR_RETURN(shape, item.slice->Apply(item.full_shape));
  }
  std::string bytes(num_bytes, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(num_bytes));
  if (!in) return absl::DataLossError("stdin ends inside a tensor");
  CASK_ASSIGN_OR_RETURN(item.tensor, MakeTensor(dtype, shape, bytes));
  return item;
}

void PrintItem(absl::string_view name, const Tensor& tensor, absl::string_view slice) {
  std::string strings;
  if (tensor.dtype() == DType::kString) {
    for (const std::string& element : tensor.flat<std::string>()) {
      char length[sizeof(uint64_t)];
      StoreLittleEndian<uint64_t>(element.size(), length);
      absl::StrAppend(&strings, absl::string_view(length, sizeof(length)), element);
    }
  }
  const absl::string_view bytes = tensor.dtype() == DType::kString ? absl::string_view(strings) : tensor.bytes();
  const std::string shape = tensor.rank() == 0 ? "-" : absl::StrJoin(tensor.shape().dims(), ",");
  std::cout << absl::StrJoin({absl::BytesToHexString(name), std::string(DTypeName(tensor.dtype())), shape,
                              std::string("0"), std::string(slice), absl::StrCat(bytes.size())},
                             " ")
            << '\n'
            << bytes;
}

// ---- Commands -------------------------------------------------------------------------------------------------------

absl::Status ParseOption(absl::string_view option, CheckpointWriterOptions* options, CheckpointAddOptions* add) {
  if (option == "--overwrite") {
    options->overwrite = true;
  } else if (option == "--preserve") {
    add->layout = StoredLayout::kPreserve;
  } else if (option == "--level=default") {
    options->payload.level = PayloadLevel::kDefault;
  } else if (option == "--level=high") {
    options->payload.level = PayloadLevel::kHigh;
  } else if (!(absl::ConsumePrefix(&option, "--shards=") && absl::SimpleAtoi(option, &options->num_shards)) &&
             !(absl::ConsumePrefix(&option, "--alignment=") && absl::SimpleAtoi(option, &options->alignment)) &&
             option != "--level=stored") {
    return absl::InvalidArgumentError(absl::StrCat("unknown option ", option));
  }
  return absl::OkStatus();
}

absl::Status AddItem(const Item& item, CheckpointAddOptions add, CheckpointWriter* writer) {
  add.shard = item.shard;
  if (item.slice.has_value()) return writer->AddSlice(item.name, item.full_shape, *item.slice, item.tensor, add);
  TensorView view(item.tensor);
  if (add.layout == StoredLayout::kPreserve && view.rank() >= 2) {
    CASK_ASSIGN_OR_RETURN(view, view.Transpose(-1, -2));
  }
  return writer->Add(item.name, view, add);
}

absl::Status Write(const std::vector<std::string>& arguments) {
  CheckpointWriterOptions options;
  CheckpointAddOptions add;
  for (size_t i = 1; i < arguments.size(); ++i) CASK_RETURN_IF_ERROR(ParseOption(arguments[i], &options, &add));
  options.sync = false;
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(arguments[0], options));
  while (true) {
    CASK_ASSIGN_OR_RETURN(const std::optional<Item> item, ReadItem(std::cin));
    if (!item.has_value()) return writer.Finish();
    CASK_RETURN_IF_ERROR(AddItem(*item, add, &writer));
  }
}

absl::Status WriteSharded(const std::vector<std::string>& arguments) {
  int size = 0;
  if (arguments.size() != 2 || !absl::SimpleAtoi(arguments[1], &size) || size < 1) {
    return absl::InvalidArgumentError("sharded takes PREFIX RANKS");
  }
  std::vector<std::vector<LocalPiece>> pieces(static_cast<size_t>(size));
  while (true) {
    CASK_ASSIGN_OR_RETURN(const std::optional<Item> item, ReadItem(std::cin));
    if (!item.has_value()) break;
    if (item->shard < 0 || item->shard >= size) return absl::InvalidArgumentError("there is no such rank");
    pieces[static_cast<size_t>(item->shard)].push_back(
        {item->name,
         item->full_shape,
         item->slice.value_or(TensorSlice::Full(item->full_shape.rank())),
         item->tensor,
         {}});
  }
  ShardedSaveOptions options;
  options.sync = false;
  const std::vector<std::unique_ptr<Communicator>> ranks = MakeThreadCommunicators(size);
  std::vector<absl::Status> statuses(pieces.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < pieces.size(); ++i) {
    threads.emplace_back(
        [&, i] { statuses[i] = ShardedSave(ranks[i].get(), arguments[0], pieces[i], options).status(); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses[0];
}

absl::Status Read(const std::vector<std::string>& arguments) {
  const std::string mode = arguments.size() > 1 ? arguments[1] : "read";
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(arguments[0]));
  if (mode == "all") {
    CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointNamedTensor> tensors, reader.ReadAll(/*num_threads=*/2));
    for (const CheckpointNamedTensor& named : tensors) PrintItem(named.name, named.tensor, "*");
    return absl::OkStatus();
  }
  CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, reader.entries());
  for (const CheckpointEntry& entry : entries) {
    const absl::StatusOr<Tensor> tensor = mode == "map" ? reader.Map(entry.name) : reader.Read(entry.name);
    if (!tensor.ok() && mode == "each") {
      const std::string message = tensor.status().ToString();
      std::cout << absl::BytesToHexString(entry.name) << " error - 0 * " << message.size() << '\n' << message;
      continue;
    }
    CASK_RETURN_IF_ERROR(tensor.status());
    PrintItem(entry.name, *tensor, "*");
  }
  return absl::OkStatus();
}

absl::Status ReadSlices(const std::vector<std::string>& arguments) {
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(arguments[0]));
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() != 2) return absl::InvalidArgumentError(absl::StrCat("not a line of two words: ", line));
    CASK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Parse(words[1]));
    const std::string name = testing::BytesOfHex(words[0]);
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, reader.ReadSlice(name, slice));
    PrintItem(name, tensor, words[1]);
  }
  return absl::OkStatus();
}

absl::Status Run(const std::string& command, const std::vector<std::string>& arguments) {
  if (command == "write") return Write(arguments);
  if (command == "sharded") return WriteSharded(arguments);
  if (command == "read") return Read(arguments);
  if (command == "slices") return ReadSlices(arguments);
  if (command == "merge") {
    CheckpointMergeOptions options;
    options.sync = false;
    return MergeCheckpoints(absl::MakeConstSpan(arguments).subspan(1), arguments[0], options).status();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown command ", command));
}

}  // namespace
}  // namespace tensorcask

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  if (argc < 3) {
    std::cerr << "usage: bulk write|sharded|read|slices|merge PATH ...\n";
    return 2;
  }
  const absl::Status status = tensorcask::Run(argv[1], {argv + 2, argv + argc});
  std::cout.flush();
  if (status.ok() && std::cout.good()) return 0;
  std::cerr << status << '\n';
  return 1;
}
