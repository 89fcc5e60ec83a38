#include "tensorcask/serialize/io/internal/open_beneath.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__) && __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#include <sys/syscall.h>
#endif

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/internal/system_files.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask::internal {
namespace {

#ifdef O_PATH
constexpr int kOpenFolder = O_PATH | O_DIRECTORY | O_CLOEXEC;
#else
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
#endif
constexpr int kMaxFolders = 256;  // above one another, on the way from the target of a link to the root

bool IsLink(int folder, const std::string& name) {
  struct stat found;
  return fstatat(folder, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode);
}

// One step, which is not followed if it is a link: -ELOOP, also where the system calls a link "not a folder".
IoResult OpenStep(int folder, const std::string& step, int flags) {
  const int opened = openat(folder, step.c_str(), flags | O_NOFOLLOW);
  if (opened >= 0) return opened;
  const IoResult error = ErrorNow();
  return IsLink(folder, step) ? -ELOOP : error;
}

IoResult OpenByWalk(int folder, const std::string& name, int flags) {
  ScopedDescriptor here(-1);
  for (size_t begin = 0;;) {
    const size_t slash = name.find('/', begin);
    const bool is_last = slash == std::string::npos;
    const IoResult next = OpenStep(here.get() >= 0 ? here.get() : folder, name.substr(begin, slash - begin),
                                   is_last ? flags : kOpenFolder);
    if (is_last || next < 0) return next;
    here = ScopedDescriptor(static_cast<int>(next));
    begin = slash + 1;
  }
}

// Opens `name` beneath the folder and follows no link.
IoResult OpenWithoutLinks(int folder, const std::string& name, int flags) {
#ifdef SYS_openat2
  struct open_how how = {};
  how.flags = static_cast<decltype(how.flags)>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS;
  const long opened = syscall(SYS_openat2, folder, name.c_str(), &how, sizeof(how));
  if (opened >= 0) return opened;
  // EPERM: filters of system calls that are older than openat2 refuse it so.
  if (errno != ENOSYS && errno != EPERM) return ErrorNow();
#endif
  return OpenByWalk(folder, name, flags);
}

// True if the folder is one of `roots` or below one. Goes up by the folders themselves, so names and links on the way
// do not matter.
bool LiesIn(int folder, absl::Span<const IoResult> roots) {
  ScopedDescriptor here(openat(folder, ".", kOpenFolder));
  for (int above = 0; above < kMaxFolders && here.get() >= 0; ++above) {
    struct stat now;
    if (fstat(here.get(), &now) != 0) return false;
    const auto is_here = [&](int other) {
      struct stat found;
      return fstat(other, &found) == 0 && found.st_dev == now.st_dev && found.st_ino == now.st_ino;
    };
    for (const IoResult root : roots) {
      if (is_here(static_cast<int>(root))) return true;
    }
    ScopedDescriptor up(openat(here.get(), "..", kOpenFolder));
    if (up.get() < 0 || is_here(up.get())) return false;  // the root
    here = std::move(up);
  }
  return false;
}

// Opens the file that the link `name` leads to, if it lies in one of `targets` and is not a link itself.
IoResult OpenTarget(int folder, const std::string& name, absl::Span<const IoResult> targets) {
  const size_t slash = name.rfind('/');
  const bool is_here = slash == std::string::npos;
  const IoResult opened = OpenWithoutLinks(folder, is_here ? std::string(".") : name.substr(0, slash), kOpenFolder);
  if (opened < 0) return opened;
  ScopedDescriptor parent(static_cast<int>(opened));
  char text[PATH_MAX];
  const ssize_t bytes = readlinkat(parent.get(), name.c_str() + (is_here ? 0 : slash + 1), text, sizeof(text));
  if (bytes < 0) return errno == EINVAL ? -ELOOP : ErrorNow();  // no link: then a folder before it is one
  if (static_cast<size_t>(bytes) == sizeof(text)) return -ENAMETOOLONG;
  const std::string target(text, static_cast<size_t>(bytes));
  const std::string last = target.substr(target.rfind('/') + 1);
  if (last.empty() || last == "." || last == "..") return -EISDIR;
  ScopedDescriptor target_folder(openat(parent.get(), FolderOf(target).c_str(), kOpenFolder));
  if (target_folder.get() < 0) return ErrorNow();
  if (!LiesIn(target_folder.get(), targets)) return -ELOOP;
  return OpenStep(target_folder.get(), last, kOpenToRead);
}

// What a socket answers to open(2) is ENXIO.
IoResult AsFile(IoResult opened) {
  if (opened == -ENXIO) return -EINVAL;
  return opened < 0 ? opened : RegularFile(static_cast<int>(opened));
}

}  // namespace

IoResult RegularFile(int opened) {
  if (opened < 0) return errno == ENXIO ? -EINVAL : ErrorNow();  // ENXIO: a socket
  ScopedDescriptor file(opened);
  struct stat info;
  if (fstat(opened, &info) != 0) return ErrorNow();
  if (S_ISDIR(info.st_mode)) return -EISDIR;
  if (!S_ISREG(info.st_mode)) return -EINVAL;
  return file.Release();
}

IoResult OpenFolderOf(const std::string& path, bool resolved) {
  if (!resolved) return ResultOf(open(FolderOf(path).c_str(), kOpenFolder));
  char* const target = realpath(path.c_str(), nullptr);
  if (target == nullptr) return ErrorNow();
  const std::string folder = FolderOf(target);
  std::free(target);
  return ResultOf(open(folder.c_str(), kOpenFolder));
}

IoResult OpenBeneath(int folder, const std::string& name, absl::Span<const IoResult> targets) {
  IoResult opened = OpenWithoutLinks(folder, name, kOpenToRead);
  if (opened == -ELOOP && !targets.empty()) opened = OpenTarget(folder, name, targets);
  return AsFile(opened);
}

IoResult OpenBeneathByWalk(int folder, const std::string& name) {
  return AsFile(OpenByWalk(folder, name, kOpenToRead));
}

}  // namespace tensorcask::internal
