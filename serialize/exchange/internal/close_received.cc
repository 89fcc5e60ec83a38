#include "tensorcask/serialize/exchange/internal/close_received.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "tensorcask/tensor/base/catch_exceptions.h"

namespace tensorcask::exchange {
namespace {

// Descriptors that one helper closes: as many as one message brings (SCM_MAX_FD).
constexpr size_t kBatch = 253;
// How long the helper waits for its closers, in steps of 100 us.
constexpr int kWaitSteps = 20;

struct Batch {
  std::array<int, kBatch> numbers;
  size_t count = 0;
};

// A new process that shares the descriptor table; the memory is copied on write. Like fork(2), but no signal tells the
// parent of its end, so that a parent that waits for all its children does not see it.
pid_t CloneWithSameDescriptors() { return static_cast<pid_t>(syscall(SYS_clone, CLONE_FILES, nullptr, 0, 0, 0)); }

[[noreturn]] void EndProcess() {
  while (true) syscall(SYS_exit_group, 0);
}

// The helper: one closer for each descriptor, so that one that blocks does not delay the others. Only system calls: the
// memory is a copy in which locks of other threads may be held.
[[noreturn]] void CloseInProcesses(const Batch& batch) {
  size_t running = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    const pid_t closer = CloneWithSameDescriptors();
    if (closer > 0) {
      ++running;
      continue;
    }
    syscall(SYS_close, batch.numbers[i]);  // the closer, or the helper if there are no more processes
    if (closer == 0) EndProcess();
  }
  for (int step = 0; running > 0 && step < kWaitSteps; ++step) {
    while (running > 0 && syscall(SYS_wait4, -1, nullptr, WNOHANG | __WALL, nullptr) > 0) --running;
    if (running == 0) break;
    const timespec pause = {0, 100 * 1000};
    syscall(SYS_nanosleep, &pause, nullptr);
  }
  EndProcess();
}

// False if no process can be made.
bool CloseInHelper(const Batch& batch) {
  // The helper must run no signal handler of this program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t helper = CloneWithSameDescriptors();
  if (helper == 0) CloseInProcesses(batch);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (helper < 0) return false;
  while (waitpid(helper, nullptr, __WALL) < 0 && errno == EINTR) {
  }
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
