#include "tensorcask/serialize/sharded/sharded_load.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask {
namespace {

using sharded::Agree;
using sharded::Agreement;

// A file system in which one file has the bytes that rank 0 sent, and its identity, so that a reader notices if the
// file was replaced meanwhile.
class SentFile final : public ForwardingFileSystem {
 public:
  SentFile(FileSystem* behind, std::string path, absl::string_view bytes, FileId id)
      : ForwardingFileSystem(behind), path_(std::move(path)), bytes_(bytes), id_(id) {}

  IoResult OpenToRead(const std::string& path) override {
    return path == path_ ? kHandle : ForwardingFileSystem::OpenToRead(path);
  }
  IoResult SizeOf(IoResult handle) override {
    return handle == kHandle ? static_cast<IoResult>(bytes_.size()) : ForwardingFileSystem::SizeOf(handle);
  }
  IoResult DescribeOpen(IoResult handle, FileInfo* info) override {
    if (handle != kHandle) return ForwardingFileSystem::DescribeOpen(handle, info);
    info->type = FileInfo::Type::kRegular;
    info->size_bytes = bytes_.size();
    info->id = id_;
    return 0;
  }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    if (handle != kHandle) return ForwardingFileSystem::ReadAt(handle, offset, out);
    if (offset >= bytes_.size()) return 0;
    const size_t count = std::min<uint64_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, count);
    return static_cast<IoResult>(count);
  }
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return handle == kHandle ? FileSystem::ReadManyAt(handle, ranges)
                             : ForwardingFileSystem::ReadManyAt(handle, ranges);
  }
  IoResult Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) override {
    return handle == kHandle ? -EOPNOTSUPP : ForwardingFileSystem::Map(handle, offset, size_bytes, data);
  }
  IoResult Close(IoResult handle) override { return handle == kHandle ? 0 : ForwardingFileSystem::Close(handle); }
  ReadShape ShapeOf(IoResult handle) const override {
    return handle == kHandle ? behind()->read_shape() : ForwardingFileSystem::ShapeOf(handle);
  }

 private:
  static constexpr IoResult kHandle = std::numeric_limits<IoResult>::max();  // no descriptor has this number

  const std::string path_;
  const absl::string_view bytes_;
  const FileId id_;
};

// At rank 0: the path of the index, the identity of the file, its bytes. The path alone for a checkpoint of one file
// (V1), which each rank opens itself.
absl::StatusOr<std::string> ReadIndex(const std::string& prefix, const CheckpointReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix, options));
  const std::string path = absl::StrCat(reader.prefix(), ".index");
  std::string sent;
  AppendVarint(path.size(), &sent);
  sent += path;
  ReadOptions read;
  read.file_system = options.read.file_system;
  const absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(path, read);
  if (absl::IsNotFound(file.status())) return sent;
  CASK_RETURN_IF_ERROR(file.status());
  FileSystem* files = nullptr;
  IoResult handle = -1;
  FileInfo info;
  if ((*file)->GetFile(&files, &handle) && files->DescribeOpen(handle, &info) < 0) info.id = FileId();
  AppendVarint(info.id.device, &sent);
  AppendVarint(info.id.number, &sent);
  const size_t begin = sent.size();
  sent.resize(begin + (*file)->size_bytes());
  CASK_RETURN_IF_ERROR((*file)->ReadAt(0, absl::MakeSpan(sent).subspan(begin)));
  return sent;
}

absl::Status ReadWanted(const std::string& prefix, absl::string_view sent, absl::Span<const WantedPiece> wanted,
                        CheckpointReaderOptions options) {
  uint64_t size = 0;
  if (!ParseVarint(&sent, &size) || size > sent.size()) return absl::InternalError("rank 0 sent no index");
  const std::string path(sent.substr(0, size));
  sent.remove_prefix(size);
  std::unique_ptr<SentFile> files;  // outlives the reader
  if (!sent.empty()) {
    FileId id;
    if (!ParseVarint(&sent, &id.device) || !ParseVarint(&sent, &id.number)) {
      return absl::InternalError("rank 0 sent an index that is cut short");
    }
    files = std::make_unique<SentFile>(options.read.file_system, path, sent, id);
    options.read.file_system = files.get();
  }
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix, options));
  for (const WantedPiece& piece : wanted) {
    TensorView into = piece.into;  // on the same buffer
    CASK_RETURN_IF_ERROR(reader.ReadSliceInto(piece.name, piece.slice, &into));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ShardedLoad(Communicator* comm, const std::string& prefix, absl::Span<const WantedPiece> wanted,
                         const ShardedLoadOptions& options) {
  CASK_ASSIGN_OR_RETURN(const Agreement index, Agree(comm, absl::OkStatus(), "", [&](const std::vector<std::string>&) {
                          return ReadIndex(prefix, options.reader);
                        }));
  CASK_RETURN_IF_ERROR(index.status);
  const absl::Status read = CatchExceptions([&] { return ReadWanted(prefix, index.answer, wanted, options.reader); });
  CASK_ASSIGN_OR_RETURN(const Agreement end, Agree(comm, read, "", [](const std::vector<std::string>&) {
                          return absl::StatusOr<std::string>(std::string());
                        }));
  return end.status;
}

}  // namespace tensorcask
