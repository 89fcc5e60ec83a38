// The FileSystem of an ObjectStore: object_store.h says what it promises.
//
// Every path that ends in a slash is a folder, and so is one below which a missing file was looked for, if a list shows
// something there; other paths are objects, so that looking for one takes one request. MakeFolder and SyncFolder do
// nothing. There are no locks, links, permissions and mappings. The names NAME.tmp-<16 hex digits> of files that are
// being written exist in this process alone.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_OBJECT_FILES_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_OBJECT_FILES_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/object_store/internal/object_requests.h"
#include "tensorcask/serialize/object_store/internal/task_threads.h"
#include "tensorcask/serialize/object_store/internal/upload.h"
#include "tensorcask/serialize/object_store/object_store.h"

namespace tensorcask::internal {

class ObjectFiles final : public FileSystem {
 public:
  // The options' range_bytes, part_bytes and connections.
  ObjectFiles(const ObjectRequests* requests, const ObjectStoreOptions& options);
  ~ObjectFiles() override;

  // Removes the uploads that Rename did not publish.
  void RemoveUploads();

  IoResult OpenToRead(const std::string& path) override;
  IoResult OpenToReadSoon(const std::string& path) override;
  IoResult CreateNew(const std::string& path) override;
  IoResult CreateToPublish(const std::string& path, const std::string& final_path) override;
  IoResult CheckNew(const std::string& path) override;
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override;
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override;
  IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) override;
  IoResult ReadPieceSoon(IoResult handle, absl::Span<ReadRange> ranges, absl::FunctionRef<bool()> find_memory) override;
  IoResult Append(IoResult handle, absl::string_view bytes) override;
  IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) override;
  IoResult Reserve(IoResult handle, uint64_t size_bytes) override;
  IoResult SizeOf(IoResult handle) override;
  IoResult DescribeOpen(IoResult handle, FileInfo* info) override;
  IoResult Sync(IoResult handle) override;
  IoResult SetPublic(IoResult handle) override;
  IoResult Close(IoResult handle) override;
  IoResult Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) override;
  IoResult Unmap(const char* data, size_t size_bytes) override;
  IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) override;
  IoResult RenameOver(const std::string& from, const std::string& to, IoResult replaced) override;
  IoResult Link(const std::string& from, const std::string& to) override;
  IoResult Lock(const std::string& path) override;
  IoResult RemoveUnlocked(const std::string& path) override;
  IoResult Remove(const std::string& path) override;
  IoResult MakeFolder(const std::string& path) override;
  IoResult SyncFolder(const std::string& path) override;
  IoResult Describe(const std::string& path, FileInfo* info) override;
  IoResult List(const std::string& path, std::vector<std::string>* names) override;
  ReadShape read_shape() const override;
  std::string LastDetail() const override;

 private:
  struct OpenObject;
  struct Handle {
    std::shared_ptr<OpenObject> object;  // to read
    std::shared_ptr<Upload> upload;      // to write
  };

  IoResult CheckProcess() const;
  IoResult AddHandle(Handle handle);
  std::shared_ptr<OpenObject> FindObject(IoResult handle);
  IoResult FindOpenObject(IoResult handle, std::shared_ptr<OpenObject>* object);
  IoResult Open(OpenObject* object, uint64_t tail_bytes, std::string* detail) const;
  std::shared_ptr<Upload> FindUpload(IoResult handle);
  IoResult ReadPiece(OpenObject* object, absl::Span<const ReadRange> parts, std::string* detail);
  IoResult ReadSmall(OpenObject* object, uint64_t offset, absl::Span<char> out, std::string* detail);
  IoResult Request(OpenObject* object, absl::Span<const ReadRange> parts, std::string* detail);
  IoResult Request(OpenObject* object, const ExpectedRange& range, std::string* detail);
  IoResult Publish(const std::string& from, const std::string& to, const PublishCondition& condition);
  void RememberMissing(const std::string& path);
  bool IsFolder(const ObjectUrl& url, IoResult* result);

  const ObjectRequests* const requests_;
  const uint64_t range_bytes_;
  const uint64_t part_bytes_;
  const int connections_;
  TaskThreads threads_;

  std::mutex mutex_;
  std::map<IoResult, Handle> handles_;
  std::map<std::string, std::shared_ptr<Upload>> uploads_;  // by the temporary path
  // The object that was looked for last and not found. CheckNew need not ask again for it, and a question about a
  // folder of it is one about a folder: no store knows folders, and HEAD finds none.
  std::string missing_path_;
  IoResult next_handle_ = 3;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_OBJECT_FILES_H_
