// The interface under all file access: exactly the system calls that the library makes.
//
//   FileSystem* files = FileSystem::Posix();
//   int64_t handle = files->OpenToRead("/models/a.index");   // >= 0, or -errno
//   int64_t got = files->ReadAt(handle, 0, absl::MakeSpan(buffer));
//
// Each operation behaves as its system call: it may move fewer bytes than asked and may answer -EINTR. The other
// headers of this room retry, and turn errno into a Status that names the path; the rest of the library uses these. A
// test that replaces this class (tests/support/faulty_file_system.h) sees every operation and can make each one fail.
//
// Operations are safe from several threads; a handle being closed is not used by another. A FileSystem outlives what
// was opened through it.

#ifndef TENSORCASK_SERIALIZE_IO_FILE_SYSTEM_H_
#define TENSORCASK_SERIALIZE_IO_FILE_SYSTEM_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask {

// A count or handle (>= 0), or minus an errno.
using IoResult = int64_t;

// Which file it is: equal for all names of one file, whatever the paths. No other file has it while the file has a name
// or is open.
struct FileId {
  uint64_t device = 0;
  uint64_t number = 0;  // 0: the file system does not tell

  bool is_known() const { return number != 0; }
  // True if both are known and equal.
  bool Is(const FileId& other) const { return is_known() && device == other.device && number == other.number; }
};

struct FileInfo {
  enum class Type { kRegular, kFolder, kOther };
  Type type = Type::kRegular;
  uint64_t size_bytes = 0;
  int64_t modified_unix_seconds = 0;  // the last change of the content; 0: unknown
  uint64_t num_names = 1;             // of a file: its hard links
  FileId id;
};

struct FilePermissions {
  uint32_t mode = 0;  // nine bits
  uint32_t user = 0;  // the owner
  uint32_t group = 0;
};

// A part of a file, and where its bytes go.
struct ReadRange {
  uint64_t offset = 0;
  absl::Span<char> out;
};

// How the files of a system are read best. The defaults are those of a disk.
struct ReadShape {
  uint64_t piece_bytes = 512 << 10;  // the size of one read
  int in_flight = 1;                 // reads at the same time
  uint64_t gap_bytes = 4096;         // bytes between two ranges that are read over rather than left out
  // Whether ReadManyAt reads ranges in one piece if they lie so near to each other. False: each range is a read.
  bool joins_ranges = false;
  // The most bytes of one read whose memory is known: where all in_flight reads have as many, longer ones are fewer
  // round trips. 0: piece_bytes.
  uint64_t longest_bytes = 0;

  // The size of the pieces in which `total_bytes` are read best into memory that is known: from piece_bytes to
  // longest_bytes, so that each of in_flight connections gets as much as the others.
  uint64_t PieceBytesOf(uint64_t total_bytes) const;
};

class FileSystem {
 public:
  enum class OnExisting { kReplace, kRefuse };

  virtual ~FileSystem() = default;

  // The system's files. Stateless; never destroyed.
  static FileSystem* Posix();

  // ---- Files --------------------------------------------------------------------------------------------------------

  // A handle to the regular file at `path`; anything else (folder, pipe, socket, device) is refused without blocking:
  // -EISDIR for a folder, -EINVAL for the rest.
  virtual IoResult OpenToRead(const std::string& path) = 0;
  // As OpenToRead, and need not wait until it is known whether there is such a file: then the first operation of the
  // handle that has to know waits, and returns what OpenToRead would have. The default is OpenToRead.
  virtual IoResult OpenToReadSoon(const std::string& path);
  // A handle to a new file, open for appending and private to the user until SetPublic; -EEXIST if there is anything of
  // that name, a dangling link included. The handle holds a shared lock of the file (LockShared) where there are locks.
  virtual IoResult CreateNew(const std::string& path) = 0;
  // As CreateNew, of a file that Rename will give the name `final_path`, or Remove will remove: a system whose files
  // cannot be renamed makes it under that name, invisible until then. The default is CreateNew(path).
  virtual IoResult CreateToPublish(const std::string& path, const std::string& final_path);
  // Returns what CreateNew would return, as far as that can be told without making a file; 0 if it may succeed. -EPERM,
  // not -EEXIST, for a link that leads to what a process has open, such as /dev/stdout. The default knows only -EEXIST.
  virtual IoResult CheckNew(const std::string& path);
  virtual IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) = 0;  // bytes read; 0 at the end
  // Fills all ranges, which may come in any order, several at the same time where that helps. Retries short counts and
  // -EINTR. Returns 0, or the error of the range with the lowest offset that failed; -ENODATA where the file ends
  // before a range does. The default calls ReadAt for one range after the other.
  virtual IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges);
  // As ReadManyAt, in one read where the system's reads may be so long: a piece that the caller has cut, and reads
  // beside others. The ranges come by offset, do not overlap, and have up to ReadShape::longest_bytes from the first to
  // the last. The default is ReadManyAt.
  virtual IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges);
  // As ReadPieceAt, of a file of OpenToReadSoon, into memory that is not known yet: the sizes of `ranges` are. Once the
  // file is open and has them, find_memory() waits for the memory and sets it in `ranges`, or returns false: then
  // nothing is read, and the result is -ECANCELED. The default calls find_memory first.
  virtual IoResult ReadPieceSoon(IoResult handle, absl::Span<ReadRange> ranges, absl::FunctionRef<bool()> find_memory);
  virtual IoResult Append(IoResult handle, absl::string_view bytes) = 0;  // bytes written
  // Writes at `offset` of a file that CreateNew made and returns the number of bytes written. Append goes on where the
  // last Append ended. Each system says where it can go back; elsewhere it returns -EOPNOTSUPP and changes nothing:
  //   disks and memory   everywhere; the file grows if the bytes end past its end, and a gap is filled with zeros
  //   object stores      in the first 8 MiB (or as many as a part of an upload has), which are kept until Rename, for
  //                      a header that describes what follows it, and in the bytes that were not sent yet
  //   the default        nowhere
  virtual IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes);
  // Appends up to `bytes` bytes of the file of handle `from`, from `offset` on, to the file of handle `to`, which
  // CreateNew made, and returns their number; 0 at the end of `from`. File systems that can do so share the bytes
  // between both files. -EOPNOTSUPP if the system cannot copy between these files.
  virtual IoResult CopyRange(IoResult from, uint64_t offset, IoResult to, uint64_t bytes);
  // Reserves space from the end of the file to byte `size_bytes`, without changing its size. Releases space that was
  // reserved beyond that byte. -EOPNOTSUPP if the file system cannot reserve space.
  virtual IoResult Reserve(IoResult handle, uint64_t size_bytes) = 0;
  // Starts to write a part of the file to the disk without waiting for the end, so that a later Sync takes less time.
  // -EOPNOTSUPP (the default) where the system cannot do so. After -EIO, -ENOSPC or -EDQUOT bytes may be lost, and Sync
  // need not report it again.
  virtual IoResult StartSync(IoResult handle, uint64_t offset, uint64_t bytes);
  virtual IoResult SizeOf(IoResult handle) = 0;
  virtual IoResult DescribeOpen(IoResult handle, FileInfo* info);  // -EOPNOTSUPP (the default) where that is unknown
  virtual IoResult Sync(IoResult handle) = 0;                      // content, size and permissions are durable
  // Gives the file the permissions that the process gives new files (0666 less the umask). -EOPNOTSUPP if the system
  // keeps no permissions or does not report the umask; the file then stays as it is.
  virtual IoResult SetPublic(IoResult handle) = 0;
  // Gives the file these permissions and this group; where the process may not give it the group, the group gets no
  // permissions. -EOPNOTSUPP if the system keeps no permissions, or if they are those of a file of another user: what a
  // stranger put there says nothing. The file then stays as it is.
  virtual IoResult SetPermissions(IoResult handle, const FilePermissions& permissions);
  virtual IoResult Close(IoResult handle) = 0;  // the handle is gone, whatever the answer

  // Maps bytes [offset, offset + size_bytes) read-only and sets *data; offset is a multiple of the page size, the range
  // is not empty and lies in the file. It outlives the handle.
  virtual IoResult Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) = 0;
  virtual IoResult Unmap(const char* data, size_t size_bytes) = 0;

  // ---- Names --------------------------------------------------------------------------------------------------------

  // Atomic. With kRefuse, -EEXIST if `to` exists.
  virtual IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) = 0;
  // As Rename with kReplace, if `to` is still the file that the handle `replaced` of OpenToRead has open, in one step:
  // -ESTALE, and nothing is renamed, if `to` is another file or is gone. -EOPNOTSUPP (the default) where the system has
  // no such step.
  virtual IoResult RenameOver(const std::string& from, const std::string& to, IoResult replaced);
  // Makes `to` a hard link to the file `from`, which must be a regular file; -EEXIST if `to` exists in any form,
  // -EOPNOTSUPP if no hard link is possible (for example across file systems).
  virtual IoResult Link(const std::string& from, const std::string& to) = 0;
  // Acquires the lock of the file at `path` and returns a handle that holds it. Makes the file if it is missing.
  // -EWOULDBLOCK while another handle, of any process, holds the lock. Close releases the lock, and so does the end of
  // the process.
  virtual IoResult Lock(const std::string& path) = 0;
  // Acquires a shared lock of the file at `path`, which must exist, and returns a handle that holds it. Any number of
  // handles can share the lock. -EWOULDBLOCK while a handle of Lock holds the lock of the file. A child process that
  // inherits a handle (fork without exec) shares it, too: the lock lasts until both have closed it. -EOPNOTSUPP where
  // there are no locks.
  virtual IoResult LockShared(const std::string& path);
  // Removes the regular file at `path` if no handle of any process holds a lock of it. -EWOULDBLOCK if a handle holds
  // one. -EOPNOTSUPP on file systems whose locks other machines may not see (network file systems). -EINVAL for
  // anything but a regular file.
  virtual IoResult RemoveUnlocked(const std::string& path);
  // Returns what RemoveUnlocked would return, and removes nothing. Sets *info to what is at the path; a symbolic link
  // is described itself, not its target. Sets *info also if it returns -EWOULDBLOCK, -EOPNOTSUPP or -EINVAL.
  virtual IoResult ProbeUnlocked(const std::string& path, FileInfo* info);
  virtual IoResult Remove(const std::string& path) = 0;  // removes a file; -EISDIR for a folder
  virtual IoResult MakeFolder(const std::string& path) = 0;
  virtual IoResult SyncFolder(const std::string& path) = 0;                // the names in it are durable
  virtual IoResult Describe(const std::string& path, FileInfo* info) = 0;  // follows links
  // The permissions of the regular file `path`; links are not followed. -ENOENT if there is none, -EOPNOTSUPP if the
  // system keeps none.
  virtual IoResult PermissionsOf(const std::string& path, FilePermissions* permissions);
  virtual IoResult List(const std::string& path, std::vector<std::string>* names) = 0;  // sorted, without . and ..

  // ---- What it is like ----------------------------------------------------------------------------------------------

  virtual ReadShape read_shape() const { return {}; }
  // The same of one open file, where a system is made of several (file_system_router.h).
  virtual ReadShape ShapeOf(IoResult /*handle*/) const { return read_shape(); }
  // What the system says beside the errno of the last failed operation of this thread ("SlowDown, request 18EB..."). ""
  // (the default): nothing.
  virtual std::string LastDetail() const { return ""; }

  // ---- Files beneath a folder (contained_folder.h) ------------------------------------------------------------------

  // A handle to the folder of the file `path`: the folder that the path names or, with `resolved`, the folder that has
  // the file itself after all links were followed. For OpenBeneath, DescribeOpen and Close. -EOPNOTSUPP (the default)
  // where folders have no handles.
  virtual IoResult OpenFolderOf(const std::string& path, bool resolved);
  // As OpenToRead, of the file `name` in or below the open folder. Requires: `name` is relative, and none of its steps
  // is "", "." or "..". Follows no link, whatever other processes do meanwhile, except one: the file itself may be a
  // link to a regular file in or below one of the folders `targets`. -ELOOP for every other link.
  virtual IoResult OpenBeneath(IoResult folder, const std::string& name, absl::Span<const IoResult> targets);
};

// The Status of a failed operation: message "PATH: cannot ACTION: ...", code as of absl::ErrnoToStatus but
// ResourceExhausted for EFBIG, which is a limit, and DataLoss for EBADMSG. What `files` says beside the errno
// (LastDetail) follows in parentheses; the failed operation was the last one of this thread that failed. Null: it was
// none of a FileSystem.
// Requires: result < 0.
absl::Status IoError(IoResult result, absl::string_view path, absl::string_view action,
                     const FileSystem* files = nullptr);

// The errno in such a Status, whose codes are fewer; 0 if `status` is OK or about something else.
//
//   const absl::Status status = writer.Finish();
//   if (ErrorNumberOf(status) == ENOSPC) ...   // the code is ResourceExhausted, as for a limit
int ErrorNumberOf(const absl::Status& status);
// The same error with this errno. Requires: !status.ok().
absl::Status WithErrorNumber(absl::Status status, int error);

// "s3" of "s3://bucket/name": a letter, then letters, digits, "+", "-" and ".", before "://". "" if the path has none.
absl::string_view SchemeOf(absl::string_view path);

// "folder" of "folder/name"; "." of "name"; "/" of "/name"; "s3://bucket" of "s3://bucket/name" and of itself.
std::string FolderOf(absl::string_view path);

// InvalidArgument, quoting the path, if it is empty, has a NUL byte or is longer than the system takes (4095 bytes, 255
// a component; of a path with a scheme, the components are its system's to check).
absl::Status CheckPath(absl::string_view path);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_FILE_SYSTEM_H_
