#include "tensorcask/serialize/io/file_system_router.h"

#include <cerrno>
#include <limits>

#include "tensorcask/tensor/base/check.h"

namespace tensorcask {
namespace {

// A handle is that of its system, with the number of the system in the lowest bits.
constexpr int kNumberBits = 7;
constexpr IoResult kNumberMask = (IoResult{1} << kNumberBits) - 1;
constexpr IoResult kMostHandle = std::numeric_limits<IoResult>::max() >> kNumberBits;

struct LastFailure {
  const FileSystemRouter* router = nullptr;
  const FileSystem* system = nullptr;
};
thread_local LastFailure last_failure;

size_t NumberIn(IoResult handle) { return static_cast<size_t>(handle & kNumberMask); }
IoResult HandleIn(IoResult handle) { return handle >> kNumberBits; }

}  // namespace

FileSystemRouter::FileSystemRouter(FileSystem* default_system) { systems_.push_back({"", default_system}); }

void FileSystemRouter::Add(absl::string_view scheme, FileSystem* system) {
  CASK_CHECK(!scheme.empty() && systems_.size() <= static_cast<size_t>(kNumberMask), "a scheme, and not too many");
  for (const System& added : systems_) CASK_CHECK(added.scheme != scheme, "a scheme was added twice");
  systems_.push_back({std::string(scheme), system});
}

size_t FileSystemRouter::NumberOf(absl::string_view path) const {
  const absl::string_view scheme = SchemeOf(path);
  if (scheme.empty()) return 0;
  for (size_t i = 1; i < systems_.size(); ++i) {
    if (systems_[i].scheme == scheme) return i;
  }
  return 0;
}

FileSystem* FileSystemRouter::OfHandle(IoResult handle) const {
  const size_t number = NumberIn(handle);
  return systems_[number < systems_.size() ? number : 0].system;
}

IoResult FileSystemRouter::Noted(const FileSystem* system, IoResult result) const {
  if (result < 0) last_failure = {this, system};
  return result;
}

IoResult FileSystemRouter::Handle(size_t number, IoResult opened) const {
  if (opened < 0) return Noted(systems_[number].system, opened);
  if (opened > kMostHandle) {
    systems_[number].system->Close(opened);
    return -EMFILE;
  }
  return (opened << kNumberBits) | static_cast<IoResult>(number);
}

IoResult FileSystemRouter::OpenToRead(const std::string& path) {
  const size_t number = NumberOf(path);
  return Handle(number, systems_[number].system->OpenToRead(path));
}

IoResult FileSystemRouter::OpenToReadSoon(const std::string& path) {
  const size_t number = NumberOf(path);
  return Handle(number, systems_[number].system->OpenToReadSoon(path));
}

IoResult FileSystemRouter::CreateNew(const std::string& path) {
  const size_t number = NumberOf(path);
  return Handle(number, systems_[number].system->CreateNew(path));
}

IoResult FileSystemRouter::CheckNew(const std::string& path) {
  const size_t number = NumberOf(path);
  return Noted(systems_[number].system, systems_[number].system->CheckNew(path));
}

IoResult FileSystemRouter::Lock(const std::string& path) {
  const size_t number = NumberOf(path);
  return Handle(number, systems_[number].system->Lock(path));
}

IoResult FileSystemRouter::LockShared(const std::string& path) {
  const size_t number = NumberOf(path);
  return Handle(number, systems_[number].system->LockShared(path));
}

IoResult FileSystemRouter::RemoveUnlocked(const std::string& path) {
  const size_t number = NumberOf(path);
  return Noted(systems_[number].system, systems_[number].system->RemoveUnlocked(path));
}

IoResult FileSystemRouter::ProbeUnlocked(const std::string& path, FileInfo* info) {
  const size_t number = NumberOf(path);
  return Noted(systems_[number].system, systems_[number].system->ProbeUnlocked(path, info));
}

IoResult FileSystemRouter::Remove(const std::string& path) {
  const size_t number = NumberOf(path);
  return Noted(systems_[number].system, systems_[number].system->Remove(path));
}

IoResult FileSystemRouter::MakeFolder(const std::string& path) {
  const size_t number = NumberOf(path);
  return Noted(systems_[number].system, systems_[number].system->MakeFolder(path));
}

IoResult FileSystemRouter::SyncFolder(const std::string& path) {
  const size_t number = NumberOf(path);
  return Noted(systems_[number].system, systems_[number].system->SyncFolder(path));
}

IoResult FileSystemRouter::Describe(const std::string& path, FileInfo* info) {
  const size_t number = NumberOf(path);
  return Noted(systems_[number].system, systems_[number].system->Describe(path, info));
}

IoResult FileSystemRouter::PermissionsOf(const std::string& path, FilePermissions* permissions) {
  const size_t number = NumberOf(path);
  return Noted(systems_[number].system, systems_[number].system->PermissionsOf(path, permissions));
}

IoResult FileSystemRouter::List(const std::string& path, std::vector<std::string>* names) {
  const size_t number = NumberOf(path);
  return Noted(systems_[number].system, systems_[number].system->List(path, names));
}

IoResult FileSystemRouter::OpenFolderOf(const std::string& path, bool resolved) {
  const size_t number = NumberOf(path);
  return Handle(number, systems_[number].system->OpenFolderOf(path, resolved));
}

IoResult FileSystemRouter::ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->ReadAt(HandleIn(handle), offset, out));
}

IoResult FileSystemRouter::ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->ReadManyAt(HandleIn(handle), ranges));
}

IoResult FileSystemRouter::ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->ReadPieceAt(HandleIn(handle), ranges));
}

IoResult FileSystemRouter::ReadPieceSoon(IoResult handle, absl::Span<ReadRange> ranges,
                                         absl::FunctionRef<bool()> find_memory) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->ReadPieceSoon(HandleIn(handle), ranges, find_memory));
}

IoResult FileSystemRouter::Append(IoResult handle, absl::string_view bytes) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->Append(HandleIn(handle), bytes));
}

IoResult FileSystemRouter::WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->WriteAt(HandleIn(handle), offset, bytes));
}

IoResult FileSystemRouter::Reserve(IoResult handle, uint64_t size_bytes) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->Reserve(HandleIn(handle), size_bytes));
}

IoResult FileSystemRouter::StartSync(IoResult handle, uint64_t offset, uint64_t bytes) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->StartSync(HandleIn(handle), offset, bytes));
}

IoResult FileSystemRouter::SizeOf(IoResult handle) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->SizeOf(HandleIn(handle)));
}

IoResult FileSystemRouter::DescribeOpen(IoResult handle, FileInfo* info) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->DescribeOpen(HandleIn(handle), info));
}

IoResult FileSystemRouter::Sync(IoResult handle) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->Sync(HandleIn(handle)));
}

IoResult FileSystemRouter::SetPublic(IoResult handle) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->SetPublic(HandleIn(handle)));
}

IoResult FileSystemRouter::SetPermissions(IoResult handle, const FilePermissions& permissions) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->SetPermissions(HandleIn(handle), permissions));
}

IoResult FileSystemRouter::Close(IoResult handle) {
  FileSystem* const system = OfHandle(handle);
  return Noted(system, system->Close(HandleIn(handle)));
}

IoResult FileSystemRouter::CreateToPublish(const std::string& path, const std::string& final_path) {
  const size_t number = NumberOf(path);
  if (number != NumberOf(final_path)) return Noted(this, -EXDEV);
  return Handle(number, systems_[number].system->CreateToPublish(path, final_path));
}

IoResult FileSystemRouter::CopyRange(IoResult from, uint64_t offset, IoResult to, uint64_t bytes) {
  FileSystem* const system = OfHandle(from);
  if (NumberIn(from) != NumberIn(to)) return Noted(this, -EOPNOTSUPP);
  return Noted(system, system->CopyRange(HandleIn(from), offset, HandleIn(to), bytes));
}

IoResult FileSystemRouter::Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) {
  FileSystem* const system = OfHandle(handle);
  const IoResult mapped = system->Map(HandleIn(handle), offset, size_bytes, data);
  if (mapped < 0) return Noted(system, mapped);
  const std::lock_guard<std::mutex> lock(mutex_);
  Mapping& mapping = mappings_[*data];
  mapping.system = NumberIn(handle);
  ++mapping.count;
  return mapped;
}

IoResult FileSystemRouter::Unmap(const char* data, size_t size_bytes) {
  size_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto mapping = mappings_.find(data);
    if (mapping == mappings_.end()) return Noted(this, -EINVAL);
    number = mapping->second.system;
    if (--mapping->second.count == 0) mappings_.erase(mapping);  // before the system may give the memory to others
  }
  return Noted(systems_[number].system, systems_[number].system->Unmap(data, size_bytes));
}

IoResult FileSystemRouter::Rename(const std::string& from, const std::string& to, OnExisting on_existing) {
  const size_t number = NumberOf(from);
  if (number != NumberOf(to)) return Noted(this, -EXDEV);
  return Noted(systems_[number].system, systems_[number].system->Rename(from, to, on_existing));
}

IoResult FileSystemRouter::RenameOver(const std::string& from, const std::string& to, IoResult replaced) {
  const size_t number = NumberOf(from);
  if (number != NumberOf(to) || number != NumberIn(replaced)) return Noted(this, -EXDEV);
  return Noted(systems_[number].system, systems_[number].system->RenameOver(from, to, HandleIn(replaced)));
}

IoResult FileSystemRouter::Link(const std::string& from, const std::string& to) {
  const size_t number = NumberOf(from);
  if (number != NumberOf(to)) return Noted(this, -EOPNOTSUPP);
  return Noted(systems_[number].system, systems_[number].system->Link(from, to));
}

IoResult FileSystemRouter::OpenBeneath(IoResult folder, const std::string& name, absl::Span<const IoResult> targets) {
  std::vector<IoResult> of_system;
  for (const IoResult target : targets) {
    if (NumberIn(target) == NumberIn(folder)) of_system.push_back(HandleIn(target));
  }
  return Handle(NumberIn(folder), OfHandle(folder)->OpenBeneath(HandleIn(folder), name, of_system));
}

ReadShape FileSystemRouter::read_shape() const { return systems_[0].system->read_shape(); }
ReadShape FileSystemRouter::ShapeOf(IoResult handle) const { return OfHandle(handle)->ShapeOf(HandleIn(handle)); }

std::string FileSystemRouter::LastDetail() const {
  const bool is_ours = last_failure.router == this && last_failure.system != this;
  return is_ours ? last_failure.system->LastDetail() : "";
}

}  // namespace tensorcask
