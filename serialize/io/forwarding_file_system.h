// A file system that passes every operation on to another: the base of those that change some of them.
//
//   class SlowFileSystem final : public ForwardingFileSystem {
//    public:
//     using ForwardingFileSystem::ForwardingFileSystem;
//     IoResult Sync(IoResult handle) override { Wait(); return ForwardingFileSystem::Sync(handle); }
//   };
//
// Two operations are not passed on, so that bytes and names are seen by the operations that move them: CopyRange and
// ProbeUnlocked.

#ifndef TENSORCASK_SERIALIZE_IO_FORWARDING_FILE_SYSTEM_H_
#define TENSORCASK_SERIALIZE_IO_FORWARDING_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

class ForwardingFileSystem : public FileSystem {
 public:
  // Requires: `behind` outlives this.
  explicit ForwardingFileSystem(FileSystem* behind) : behind_(behind) {}

  IoResult OpenToRead(const std::string& path) override { return behind_->OpenToRead(path); }
  IoResult CreateNew(const std::string& path) final { return CreateFile(path, nullptr); }
  IoResult CreateToPublish(const std::string& path, const std::string& final_path) final {
    return CreateFile(path, &final_path);
  }
  IoResult CheckNew(const std::string& path) override { return behind_->CheckNew(path); }
  IoResult DescribeOpen(IoResult handle, FileInfo* info) override { return behind_->DescribeOpen(handle, info); }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    return behind_->ReadAt(handle, offset, out);
  }
  // A file system that changes ReadAt changes this, too: it does not call ReadAt.
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return behind_->ReadManyAt(handle, ranges);
  }
  IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return behind_->ReadPieceAt(handle, ranges);
  }
  IoResult Append(IoResult handle, absl::string_view bytes) override { return behind_->Append(handle, bytes); }
  IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) override {
    return behind_->WriteAt(handle, offset, bytes);
  }
  IoResult Reserve(IoResult handle, uint64_t size_bytes) override { return behind_->Reserve(handle, size_bytes); }
  IoResult StartSync(IoResult handle, uint64_t offset, uint64_t bytes) override {
    return behind_->StartSync(handle, offset, bytes);
  }
  IoResult SizeOf(IoResult handle) override { return behind_->SizeOf(handle); }
  IoResult Sync(IoResult handle) override { return behind_->Sync(handle); }
  IoResult SetPublic(IoResult handle) override { return behind_->SetPublic(handle); }
  IoResult SetPermissions(IoResult handle, const FilePermissions& permissions) override {
    return behind_->SetPermissions(handle, permissions);
  }
  IoResult PermissionsOf(const std::string& path, FilePermissions* permissions) override {
    return behind_->PermissionsOf(path, permissions);
  }
  IoResult Close(IoResult handle) override { return behind_->Close(handle); }
  IoResult Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) override {
    return behind_->Map(handle, offset, size_bytes, data);
  }
  IoResult Unmap(const char* data, size_t size_bytes) override { return behind_->Unmap(data, size_bytes); }
  IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) override {
    return behind_->Rename(from, to, on_existing);
  }
  IoResult RenameOver(const std::string& from, const std::string& to, IoResult replaced) override {
    return behind_->RenameOver(from, to, replaced);
  }
  IoResult Link(const std::string& from, const std::string& to) override { return behind_->Link(from, to); }
  IoResult Lock(const std::string& path) override { return behind_->Lock(path); }
  IoResult LockShared(const std::string& path) override { return behind_->LockShared(path); }
  IoResult RemoveUnlocked(const std::string& path) override { return behind_->RemoveUnlocked(path); }
  IoResult Remove(const std::string& path) override { return behind_->Remove(path); }
  IoResult MakeFolder(const std::string& path) override { return behind_->MakeFolder(path); }
  IoResult SyncFolder(const std::string& path) override { return behind_->SyncFolder(path); }
  IoResult Describe(const std::string& path, FileInfo* info) override { return behind_->Describe(path, info); }
  IoResult List(const std::string& path, std::vector<std::string>* names) override {
    return behind_->List(path, names);
  }
  IoResult OpenFolderOf(const std::string& path, bool resolved) override {
    return behind_->OpenFolderOf(path, resolved);
  }
  IoResult OpenBeneath(IoResult folder, const std::string& name, absl::Span<const IoResult> targets) override {
    return behind_->OpenBeneath(folder, name, targets);
  }
  ReadShape read_shape() const override { return behind_->read_shape(); }
  ReadShape ShapeOf(IoResult handle) const override { return behind_->ShapeOf(handle); }
  std::string LastDetail() const override { return behind_->LastDetail(); }

 protected:
  FileSystem* behind() const { return behind_; }

  // Both ways to make a file: CreateToPublish with that final path, CreateNew if it is null.
  virtual IoResult CreateFile(const std::string& path, const std::string* final_path) {
    return final_path != nullptr ? behind_->CreateToPublish(path, *final_path) : behind_->CreateNew(path);
  }

 private:
  FileSystem* const behind_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_FORWARDING_FILE_SYSTEM_H_
