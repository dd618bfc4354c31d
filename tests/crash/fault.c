// A library to preload (LD_PRELOAD) that counts the calls by which a program changes files below one folder, and at
// the N-th of them kills the program, or makes the call fail:
//   OPENWORK_FAULT_FOLDER=/path      only calls on files below it count
//   OPENWORK_FAULT=kill:17           SIGKILL in place of call 17 (of a write: after half of it)
//   OPENWORK_FAULT=28:17             call 17 fails with errno 28 (ENOSPC); of a disk that is full, all after it too
//   OPENWORK_FAULT_COUNT=/file       at the end, the number of calls
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static long fault_at = -1;
static int fault_error;  // 0: kill
static char folder[PATH_MAX];
static pid_t owner;  // children of the program (pip, say) are not tried

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
  const char* where = getenv("OPENWORK_FAULT_FOLDER");
  if (where) snprintf(folder, sizeof folder, "%s", where);
  const char* what = getenv("OPENWORK_FAULT");
  if (what && strncmp(what, "kill:", 5) == 0) {
    fault_at = atol(what + 5);
  } else if (what) {
    fault_error = atoi(what);
    const char* colon = strchr(what, ':');
    fault_at = colon ? atol(colon + 1) : -1;
  }
  owner = getpid();
}

__attribute__((destructor)) static void end(void) {
  const char* file = getenv("OPENWORK_FAULT_COUNT");
  if (!file || getpid() != owner) return;
  FILE* out = REAL(fopen)(file, "w");
  if (!out) return;
  fprintf(out, "%ld\n", (long)calls);
  fclose(out);
}

static int is_below(const char* path) {
  char whole[2 * PATH_MAX];
  if (!folder[0] || getpid() != owner) return 0;
  if (path[0] != '/') {
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here)) return 0;
    snprintf(whole, sizeof whole, "%s/%s", here, path);
    path = whole;
  }
  return strncmp(path, folder, strlen(folder)) == 0;
}

static int is_open_below(int descriptor) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_below(path);
}

static int is_at_below(int at, const char* path) {
  return path[0] == '/' || at == AT_FDCWD ? is_below(path) : is_open_below(at);
}

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// Counts one call; true: it fails now, with errno set. `needs_space`: a full disk stays full for it.
static int counts_as_fault(int needs_space) {
  const long now = ++calls;
  if (fault_at < 0 || now < fault_at) return 0;
  if (fault_error == 0) {
    if (now == fault_at) die();
    return 0;
  }
  if (now != fault_at && !(fault_error == ENOSPC && needs_space)) return 0;
  if (fault_error == ENOSPC && !needs_space) return 0;
  errno = fault_error;
  return 1;
}

static int makes_or_writes(int flags) {
  return (flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC)) != 0;
}

#define OPEN(name)                                                                  \
  int name(const char* path, int flags, ...) {                                      \
    va_list list;                                                                   \
    va_start(list, flags);                                                          \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                                   \
    if (makes_or_writes(flags) && is_below(path) && counts_as_fault(1)) return -1;  \
    return REAL(name)(path, flags, mode);                                           \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                      \
  int name(int at, const char* path, int flags, ...) {                                    \
    va_list list;                                                                         \
    va_start(list, flags);                                                                \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0;       \
    va_end(list);                                                                         \
    if (makes_or_writes(flags) && is_at_below(at, path) && counts_as_fault(1)) return -1; \
    return REAL(name)(at, path, flags, mode);                                             \
  }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                                        \
  FILE* name(const char* path, const char* mode) {                                         \
    if ((strchr(mode, 'w') || strchr(mode, 'a') || strchr(mode, '+')) && is_below(path) && \
        counts_as_fault(1))                                                                \
      return NULL;                                                                         \
    return REAL(name)(path, mode);                                                         \
  }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int descriptor, const void* bytes, size_t size) {
  if (is_open_below(descriptor)) {
    if (fault_error == 0 && calls + 1 == fault_at && size > 1) REAL(write)(descriptor, bytes, size / 2);
    if (counts_as_fault(1)) return -1;
  }
  return REAL(write)(descriptor, bytes, size);
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  if (is_open_below(descriptor) && counts_as_fault(1)) return -1;
  return REAL(writev)(descriptor, parts, count);
}

#define ONE(type, name, parameters, arguments, below, needs_space) \
  type name parameters {                                           \
    if ((below) && counts_as_fault(needs_space)) return -1;        \
    return REAL(name) arguments;                                   \
  }
ONE(ssize_t, pwrite, (int fd, const void* b, size_t n, off_t at), (fd, b, n, at), is_open_below(fd), 1)
ONE(ssize_t, pwrite64, (int fd, const void* b, size_t n, off64_t at), (fd, b, n, at), is_open_below(fd), 1)
ONE(int, fsync, (int fd), (fd), is_open_below(fd), 1)
ONE(int, fdatasync, (int fd), (fd), is_open_below(fd), 1)
ONE(int, ftruncate, (int fd, off_t size), (fd, size), is_open_below(fd), 0)
ONE(int, ftruncate64, (int fd, off64_t size), (fd, size), is_open_below(fd), 0)
ONE(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), is_open_below(fd), 1)
ONE(int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size), is_open_below(fd),
    1)
ONE(int, rename, (const char* from, const char* to), (from, to), is_below(to), 0)
ONE(int, unlink, (const char* path), (path), is_below(path), 0)
ONE(int, unlinkat, (int at, const char* path, int flags), (at, path, flags), is_at_below(at, path), 0)
ONE(int, rmdir, (const char* path), (path), is_below(path), 0)
ONE(int, mkdir, (const char* path, mode_t mode), (path, mode), is_below(path), 1)
ONE(int, symlink, (const char* target, const char* path), (target, path), is_below(path), 1)
