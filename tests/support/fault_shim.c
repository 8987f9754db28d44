/* Makes one call that changes a file inside a folder fail, for tests of writers.

   cc -shared -fPIC -O1 -o shim.so fault_shim.c -ldl;  LD_PRELOAD=./shim.so python ...
   fault_arm(folder, n, errno): the n-th such call from now on (from 0) fails, once.
   fault_calls(): how many there were since; fault_kind(): the one that failed, or NULL. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long left = -1, calls = 0;
static int error_number = ENOSPC;
static const char *failed = NULL;

void fault_arm(const char *inside, long n, int number) {
  snprintf(folder, sizeof folder, "%s", inside);
  left = n; calls = 0; error_number = number; failed = NULL;
}
long fault_calls(void) { return calls; }
const char *fault_kind(void) { return failed; }

static int is_inside(const char *path) {
  return folder[0] && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int of_file(int fd) {
  char link[64], path[PATH_MAX];
  if (!folder[0]) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return is_inside(path);
}

static int fails(const char *kind) {
  calls++;
  if (left < 0 || left-- > 0) return 0;
  failed = kind;
  errno = error_number;
  return 1;
}

#define REAL(result, name, ...) \
  static result (*real)(__VA_ARGS__) = NULL; \
  if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t n) {
  REAL(ssize_t, write, int, const void *, size_t);
  if (of_file(fd) && fails("write")) return -1;
  return real(fd, data, n);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
  REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
  if (of_file(fd) && fails("pwrite")) return -1;
  return real(fd, data, n, at);
}
ssize_t writev(int fd, const struct iovec *parts, int n) {
  REAL(ssize_t, writev, int, const struct iovec *, int);
  if (of_file(fd) && fails("writev")) return -1;
  return real(fd, parts, n);
}
int fsync(int fd) {
  REAL(int, fsync, int);
  if (of_file(fd) && fails("fsync")) return -1;
  return real(fd);
}
int fdatasync(int fd) {
  REAL(int, fdatasync, int);
  if (of_file(fd) && fails("fdatasync")) return -1;
  return real(fd);
}
int ftruncate64(int fd, off64_t n) {
  REAL(int, ftruncate64, int, off64_t);
  if (of_file(fd) && fails("ftruncate")) return -1;
  return real(fd, n);
}
int rename(const char *from, const char *to) {
  REAL(int, rename, const char *, const char *);
  if (is_inside(to) && fails("rename")) return -1;
  return real(from, to);
}
int mkdir(const char *path, mode_t mode) {
  REAL(int, mkdir, const char *, mode_t);
  if (is_inside(path) && fails("mkdir")) return -1;
  return real(path, mode);
}
static int opens_for_writing(const char *path, int flags) {
  return (flags & (O_CREAT | O_WRONLY | O_RDWR)) && is_inside(path) && fails("open");
}
int open64(const char *path, int flags, ...) {
  REAL(int, open64, const char *, int, ...);
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (opens_for_writing(path, flags)) return -1;
  return real(path, flags, mode);
}
int open(const char *path, int flags, ...) {
  REAL(int, open, const char *, int, ...);
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (opens_for_writing(path, flags)) return -1;
  return real(path, flags, mode);
}
