// measure_peak FILE PROGRAM [ARGUMENT...]: runs the program and writes its exit status (minus the number of the signal
// that ended it) and the most memory that it had, in bytes, to FILE.
//
// The kernel counts for a process also the memory of the one that it was forked from, until it executes its program.
// This one is small; Python is not.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const pid_t child = fork();
  if (child < 0) return 2;
  if (child == 0) {
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  int status = 0;
  struct rusage usage = {};
  if (wait4(child, &status, 0, &usage) != child) return 2;
  std::FILE* const file = std::fopen(argv[1], "w");
  if (file == nullptr) return 2;
  const int code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  std::fprintf(file, "%d %lld\n", code, static_cast<long long>(usage.ru_maxrss) * 1024);
  return std::fclose(file) == 0 ? 0 : 2;
}
