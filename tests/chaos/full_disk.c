/* A disk that is full from the n-th change of a file on: to be preloaded (LD_PRELOAD), armed by `full_disk_after(n)`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

static long left = -1; /* changes for which there is room; negative: for all */
static long changes = 0;

void full_disk_after(long count) { left = count, changes = 0; }
long disk_changes(void) { return changes; }

static int no_room(int file) {
  struct stat about;
  if (file >= 0 && (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))) return 0;
  changes++;
  if (left < 0) return 0;
  if (left > 0) return left--, 0;
  errno = ENOSPC;
  return 1;
}

#define LIMITED(type, name, file, takes, gives)                    \
  type name takes {                                                \
    static type(*real) takes;                                      \
    if (!real) real = (type(*) takes)dlsym(RTLD_NEXT, #name);      \
    return no_room(file) ? -1 : real gives;                        \
  }

/* What does not fit is written by half: so it is on real disks. */
ssize_t write(int file, const void *bytes, size_t count) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  if (!no_room(file)) return real(file, bytes, count);
  if (count > 1) real(file, bytes, count / 2);
  errno = ENOSPC;
  return -1;
}

LIMITED(ssize_t, pwrite, file, (int file, const void *bytes, size_t count, off_t at), (file, bytes, count, at))
LIMITED(ssize_t, pwrite64, file, (int file, const void *bytes, size_t count, off_t at), (file, bytes, count, at))
LIMITED(ssize_t, writev, file, (int file, const struct iovec *parts, int count), (file, parts, count))
LIMITED(int, fsync, file, (int file), (file))
LIMITED(int, fdatasync, file, (int file), (file))
LIMITED(int, rename, -1, (const char *from, const char *to), (from, to))
LIMITED(int, mkdir, -1, (const char *path, mode_t mode), (path, mode))
