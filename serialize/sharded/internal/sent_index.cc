#include "tensorcask/serialize/sharded/internal/sent_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::sharded {
namespace {

// A file system in which one file has the bytes that rank 0 sent, and the identity of the file, so that a reader
// notices if the file was replaced meanwhile.
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
  IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return handle == kHandle ? FileSystem::ReadManyAt(handle, ranges)
                             : ForwardingFileSystem::ReadPieceAt(handle, ranges);
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

// At rank 0: the path of the index, the number of the file (FileId), its bytes. The path alone for a checkpoint of one
// file (V1), which each rank opens itself.
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
  AppendVarint(DescribeOpenFile(**file).value_or(FileInfo()).id.number, &sent);
  const size_t begin = sent.size();
  sent.resize(begin + (*file)->size_bytes());
  CASK_RETURN_IF_ERROR((*file)->ReadAt(0, absl::MakeSpan(sent).subspan(begin)));
  return sent;
}

// The identity that the file with these bytes, which has the number `number` on the host of rank 0, has on this host.
// Each host has its own device numbers for network file systems, and some of these number their files on each host,
// too: then the bytes tell. An identity that no file has if the file here is another one, or none.
FileId LocalId(const std::string& path, absl::string_view bytes, uint64_t number, FileSystem* files) {
  if (number == 0) return FileId();  // unknown
  const FileInfo here = DescribeFile(path, files).value_or(FileInfo());
  if (here.id.number == number && here.size_bytes == bytes.size()) return here.id;
  const FileId of_no_file = {0, number};
  ReadOptions read;
  read.file_system = files;
  const absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(path, read);
  if (!file.ok() || (*file)->size_bytes() != bytes.size()) return of_no_file;
  std::string found(bytes.size(), '\0');
  if (!(*file)->ReadAt(0, absl::MakeSpan(found)).ok() || found != bytes) return of_no_file;
  return DescribeOpenFile(**file).value_or(FileInfo()).id;
}

}  // namespace

absl::StatusOr<std::string> SendIndex(Communicator* comm, const std::string& prefix,
                                      const CheckpointReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(Agreement index,
                        Agree(comm, absl::OkStatus(), prefix,
                              [&](const std::vector<std::string>& prefixes) -> absl::StatusOr<std::string> {
                                CASK_RETURN_IF_ERROR(CheckSamePath(prefixes));
                                return ReadIndex(prefix, options);
                              }));
  CASK_RETURN_IF_ERROR(index.status);
  return std::move(index.answer);
}

absl::StatusOr<std::unique_ptr<SentCheckpoint>> SentCheckpoint::Open(const std::string& prefix, absl::string_view sent,
                                                                     CheckpointReaderOptions options) {
  uint64_t size = 0;
  if (!ParseVarint(&sent, &size) || size > sent.size()) return absl::InternalError("rank 0 sent no index");
  const std::string path(sent.substr(0, size));
  sent.remove_prefix(size);
  auto opened = std::unique_ptr<SentCheckpoint>(new SentCheckpoint());
  if (!sent.empty()) {
    uint64_t number = 0;
    if (!ParseVarint(&sent, &number)) return absl::InternalError("rank 0 sent an index that is cut short");
    FileSystem* const files = options.read.file_system;
    opened->files_ = std::make_unique<SentFile>(files, path, sent, LocalId(path, sent, number, files));
    options.read.file_system = opened->files_.get();
  }
  CASK_ASSIGN_OR_RETURN(opened->reader_, CheckpointReader::Open(prefix, options));
  return opened;
}

}  // namespace tensorcask::sharded
