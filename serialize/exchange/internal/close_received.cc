#include "tensorcask/serialize/exchange/internal/close_received.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "tensorcask/tensor/base/catch_exceptions.h"

namespace tensorcask::exchange {
namespace {

// Descriptors that one helper closes: as many as one message brings (SCM_MAX_FD).
constexpr size_t kBatch = 253;
// How long this process waits for the helper and its closers, in steps of 100 us.
constexpr int kWaitSteps = 20;

struct Batch {
  std::array<int, kBatch> numbers;
  size_t count = 0;
};

// ---- What helpers tell ----------------------------------------------------------------------------------------------

// The helpers of one process, in memory that they share with it. Without locks: a child of fork(2) may start while
// another thread is in here.
struct HelperTable {
  static constexpr int kStarting = -1;
  static constexpr pid_t kTaken = -1;
  struct Helper {
    std::atomic<pid_t> process{0};  // 0: free
    std::atomic<int> closers{0};    // that it waits for
  };
  pid_t owner = 0;
  std::array<Helper, 256> helpers;
};

std::atomic<HelperTable*> helper_table{nullptr};

// The table of this process; null if it has none, or with `create`, if the system gives no memory. The table that a
// child of fork(2) inherits is its parent's, and stays mapped.
HelperTable* OwnTable(bool create) {
  HelperTable* known = helper_table.load(std::memory_order_acquire);
  const pid_t self = getpid();
  if (known != nullptr && known->owner == self) return known;
  if (!create) return nullptr;
  void* const memory =
      mmap(nullptr, sizeof(HelperTable), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  if (memory == MAP_FAILED) return nullptr;
  HelperTable* const made = new (memory) HelperTable;
  made->owner = self;
  if (helper_table.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made;
  munmap(memory, sizeof(HelperTable));  // another thread was faster
  return known;
}

// True if the helper has ended. Frees its entry.
bool Reap(HelperTable::Helper* helper, pid_t process) {
  if (waitpid(process, nullptr, WNOHANG | __WALL) == 0) return false;
  helper->process.compare_exchange_strong(process, 0, std::memory_order_acq_rel);
  return true;
}

HelperTable::Helper* AcquireEntry(HelperTable* table) {
  for (HelperTable::Helper& helper : table->helpers) {
    pid_t process = helper.process.load(std::memory_order_acquire);
    if (process > 0 && Reap(&helper, process)) process = 0;
    if (process != 0 || !helper.process.compare_exchange_strong(process, HelperTable::kTaken)) continue;
    helper.closers = HelperTable::kStarting;
    return &helper;
  }
  return nullptr;
}

// ---- The helper -----------------------------------------------------------------------------------------------------

// A new process that shares the descriptor table; the memory is copied on write. Like fork(2), but no signal tells the
// parent of its end, so that a parent that waits for all its children does not see it.
pid_t CloneWithSameDescriptors() { return static_cast<pid_t>(syscall(SYS_clone, CLONE_FILES, nullptr, 0, 0, 0)); }

[[noreturn]] void EndProcess() {
  while (true) syscall(SYS_exit_group, 0);
}

void Pause(long microseconds) {
  const timespec pause = {0, microseconds * 1000};
  syscall(SYS_nanosleep, &pause, nullptr);
}

// Whether the parent of this process has ended. 0 is the id of a parent that is in another namespace of processes.
bool HasEnded(pid_t parent) {
  const auto now = static_cast<pid_t>(syscall(SYS_getppid));
  return now != parent && now != 0;
}

void CloseRange(unsigned first, unsigned last) {
  if (syscall(SYS_close_range, first, last, 0) == 0) return;
  rlimit limit = {};
  syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);  // before Linux 5.9
  for (rlim_t number = first; number <= last && number < limit.rlim_max; ++number) syscall(SYS_close, number);
}

// Closes what a process left that has ended. The numbers of the batch are left to the closers: one that has not begun
// yet would let this process block, and the others would stay open as long.
void CloseAllBut(Batch batch) {
  std::sort(batch.numbers.begin(), batch.numbers.begin() + batch.count);
  unsigned next = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    const auto number = static_cast<unsigned>(batch.numbers[i]);
    if (number > next) CloseRange(next, number - 1);
    next = number + 1;
  }
  CloseRange(next, ~0U);
}

// One closer for each descriptor, so that one that blocks does not delay the others. Only system calls: the memory is a
// copy in which locks of other threads may be held. Requires: all signals are blocked; `parent` made this process.
[[noreturn]] void RunHelper(const Batch& batch, pid_t parent, std::atomic<int>* closers) {
  syscall(SYS_setsid);
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  int running = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    const pid_t closer = CloneWithSameDescriptors();
    if (closer > 0) {
      ++running;
      continue;
    }
    if (closer < 0) closers->store(running + 1);  // there are no more processes: this one closes, and may block
    syscall(SYS_close, batch.numbers[i]);
    if (closer == 0) EndProcess();
  }
  for (int step = 0; running > 0; ++step) {
    while (running > 0 && syscall(SYS_wait4, -1, nullptr, WNOHANG | __WALL, nullptr) > 0) --running;
    if (HasEnded(parent)) {
      CloseAllBut(batch);
      break;
    }
    if (step < kWaitSteps) {
      Pause(100);
    } else {
      closers->store(running);
      // The parent's end interrupts this wait. The end of a closer does not.
      const timespec wait = {0, 100 * 1000 * 1000};
      uint64_t signals = uint64_t{1} << (SIGTERM - 1);
      syscall(SYS_rt_sigtimedwait, &signals, nullptr, &wait, sizeof(signals));
    }
  }
  EndProcess();
}

// False if no process can be made. If the table is full, the descriptors stay open.
bool CloseInHelper(const Batch& batch) {
  HelperTable* const table = OwnTable(/*create=*/true);
  if (table == nullptr) return false;
  HelperTable::Helper* const entry = AcquireEntry(table);
  if (entry == nullptr) return true;
  // The helper must run no signal handler of this program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid();
  const pid_t helper = CloneWithSameDescriptors();
  if (helper == 0) RunHelper(batch, parent, &entry->closers);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  entry->process.store(std::max(helper, 0), std::memory_order_release);
  if (helper < 0) return false;
  while (!Reap(entry, helper) && entry->closers == HelperTable::kStarting) Pause(50);
  return true;
}

void CloseSomewhereElse(const Batch& batch) {
  if (CloseInHelper(batch)) return;
  const absl::Status started = CatchExceptions([&] {
    std::thread([batch] {
      for (size_t i = 0; i < batch.count; ++i) close(batch.numbers[i]);
    }).detach();
    return absl::OkStatus();
  });
  started.IgnoreError();  // without a thread they stay open
}

// Whether the queue of a Unix socket may hold descriptors. Removes nothing from it.
bool MayHoldDescriptors(int socket) {
  int unread_bytes = 0;
  if (ioctl(socket, SIOCINQ, &unread_bytes) != 0) {
    // A listener. Clients that wait to be accepted may have sent descriptors already.
    pollfd waiting = {socket, POLLIN, 0};
    return poll(&waiting, 1, 0) != 0;
  }
  if (unread_bytes == 0) return false;
  // MSG_PEEK reads message after message up to the first one with descriptors, and then sets MSG_CTRUNC. The bytes are
  // not needed, so all parts are the same memory.
  std::array<char, 4096> bytes;
  std::array<iovec, 256> parts;
  parts.fill({bytes.data(), bytes.size()});
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t seen = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
  return seen < unread_bytes || (message.msg_flags & MSG_CTRUNC) != 0;
}

}  // namespace

bool IsMemoryFile(int descriptor) { return fcntl(descriptor, F_GET_SEALS) >= 0; }

int CountClosers() {
  HelperTable* const table = OwnTable(/*create=*/false);
  if (table == nullptr) return 0;
  int count = 0;
  for (HelperTable::Helper& helper : table->helpers) {
    const pid_t process = helper.process.load(std::memory_order_acquire);
    if (process > 0 && !Reap(&helper, process)) count += std::max(helper.closers.load(), 1);
  }
  return count;
}

void CloseReceived(absl::Span<const int> numbers) {
  Batch batch;
  for (const int number : numbers) {
    if (IsMemoryFile(number)) {
      close(number);
      continue;
    }
    batch.numbers[batch.count++] = number;
    if (batch.count == kBatch) CloseSomewhereElse(std::exchange(batch, Batch()));
  }
  if (batch.count > 0) CloseSomewhereElse(batch);
}

void CloseReceived(std::vector<ScopedDescriptor>* descriptors) {
  std::array<int, kBatch> numbers;
  for (size_t begin = 0; begin < descriptors->size(); begin += kBatch) {
    size_t count = 0;
    for (size_t i = begin; i < std::min(begin + kBatch, descriptors->size()); ++i) {
      if ((*descriptors)[i].is_open()) numbers[count++] = (*descriptors)[i].Release();
    }
    CloseReceived(absl::MakeConstSpan(numbers.data(), count));
  }
  descriptors->clear();
}

void CloseReceived(ScopedDescriptor descriptor) {
  if (!descriptor.is_open()) return;
  const int number = descriptor.Release();
  CloseReceived(absl::MakeConstSpan(&number, 1));
}

void CloseSocket(ScopedDescriptor socket) {
  if (socket.is_open() && MayHoldDescriptors(socket.get())) CloseReceived(std::move(socket));
}

}  // namespace tensorcask::exchange
