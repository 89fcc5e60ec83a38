// One file system made of several: each path goes to the one of its scheme.
//
//   FileSystemRouter files(FileSystem::Posix());   // for paths without a scheme
//   files.Add("s3", store);                        // store: a FileSystem* that knows s3://bucket/key
//   ReadOptions options;
//   options.file_system = &files;                  // wherever one is taken
//
// A path goes to the added system on whole: "s3://bucket/key", with the scheme. Paths of other schemes go to the
// default system, where "a://b" is a name like others. Handles tell their system; what needs two files of one system
// answers -EXDEV (Rename, RenameOver), or -EOPNOTSUPP (Link, CopyRange) if they are of two. How files are read best is
// told by handle (ShapeOf). Add before the first use; thread-safe afterwards.

#ifndef TENSORCASK_SERIALIZE_IO_FILE_SYSTEM_ROUTER_H_
#define TENSORCASK_SERIALIZE_IO_FILE_SYSTEM_ROUTER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

class FileSystemRouter final : public FileSystem {
 public:
  // Requires: all systems outlive this.
  explicit FileSystemRouter(FileSystem* default_system);

  // Requires: `scheme` was not added before ("s3", without "://"); fewer than 128 are.
  void Add(absl::string_view scheme, FileSystem* system);

  // The system that `path` goes to.
  FileSystem* Of(absl::string_view path) const { return systems_[NumberOf(path)].system; }

  IoResult OpenToRead(const std::string& path) override;
  IoResult OpenToReadSoon(const std::string& path) override;
  IoResult CreateNew(const std::string& path) override;
  IoResult CreateToPublish(const std::string& path, const std::string& final_path) override;  // -EXDEV across systems
  IoResult CheckNew(const std::string& path) override;
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override;
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override;
  IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) override;
  IoResult ReadPieceSoon(IoResult handle, absl::Span<ReadRange> ranges, absl::FunctionRef<bool()> find_memory) override;
  IoResult Append(IoResult handle, absl::string_view bytes) override;
  IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) override;
  IoResult CopyRange(IoResult from, uint64_t offset, IoResult to, uint64_t bytes) override;
  IoResult Reserve(IoResult handle, uint64_t size_bytes) override;
  IoResult StartSync(IoResult handle, uint64_t offset, uint64_t bytes) override;
  IoResult SizeOf(IoResult handle) override;
  IoResult DescribeOpen(IoResult handle, FileInfo* info) override;
  IoResult Sync(IoResult handle) override;
  IoResult SetPublic(IoResult handle) override;
  IoResult SetPermissions(IoResult handle, const FilePermissions& permissions) override;
  IoResult Close(IoResult handle) override;
  IoResult Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) override;
  IoResult Unmap(const char* data, size_t size_bytes) override;
  IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) override;
  IoResult RenameOver(const std::string& from, const std::string& to, IoResult replaced) override;
  IoResult Link(const std::string& from, const std::string& to) override;
  IoResult Lock(const std::string& path) override;
  IoResult LockShared(const std::string& path) override;
  IoResult RemoveUnlocked(const std::string& path) override;
  IoResult ProbeUnlocked(const std::string& path, FileInfo* info) override;
  IoResult Remove(const std::string& path) override;
  IoResult MakeFolder(const std::string& path) override;
  IoResult SyncFolder(const std::string& path) override;
  IoResult Describe(const std::string& path, FileInfo* info) override;
  IoResult PermissionsOf(const std::string& path, FilePermissions* permissions) override;
  IoResult List(const std::string& path, std::vector<std::string>* names) override;
  ReadShape read_shape() const override;  // that of the default system
  ReadShape ShapeOf(IoResult handle) const override;
  std::string LastDetail() const override;
  IoResult OpenFolderOf(const std::string& path, bool resolved) override;
  IoResult OpenBeneath(IoResult folder, const std::string& name, absl::Span<const IoResult> targets) override;

 private:
  struct System {
    std::string scheme;
    FileSystem* system = nullptr;
  };
  struct Mapping {
    size_t system = 0;
    int count = 0;  // some systems give the same memory twice
  };

  size_t NumberOf(absl::string_view path) const;
  FileSystem* OfHandle(IoResult handle) const;
  // `result` of an operation of that system; notes who has failed, for LastDetail.
  IoResult Noted(const FileSystem* system, IoResult result) const;
  IoResult Handle(size_t number, IoResult opened) const;

  std::vector<System> systems_;  // [0]: the default
  std::mutex mutex_;
  std::map<const char*, Mapping> mappings_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_FILE_SYSTEM_ROUTER_H_
