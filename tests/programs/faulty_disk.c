/* A disk to be preloaded (LD_PRELOAD) on which each change of a file takes SLOW_DISK_MS milliseconds, and which is full
   from the n-th change after `full_disk_after(n)` on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

static long left = -1; /* changes for which there is room; negative: for all */
static long changes = 0;

void full_disk_after(long count) { left = count, changes = 0; }
long disk_changes(void) { return changes; }

static long delay(void) {
  const char *said = getenv("SLOW_DISK_MS");
  return said ? atol(said) : 0;
}

static void wait_for_disk(void) {
  struct timespec rest = {delay() / 1000, delay() % 1000 * 1000000};
  while (delay() && nanosleep(&rest, &rest)) {
  }
}

static int on_disk(int file) {
  struct stat about;
  return fstat(file, &about) == 0 && S_ISREG(about.st_mode);
}

/* Count a change, and wait for it; whether there is no room. */
static int no_room(void) {
  changes++;
  wait_for_disk();
  if (left < 0) return 0;
  if (left > 0) return left--, 0;
  errno = ENOSPC;
  return 1;
}

#define FAULTY(type, name, changed, takes, gives)                \
  type name takes {                                              \
    static type(*real) takes;                                    \
    if (!real) real = (type(*) takes)dlsym(RTLD_NEXT, #name);    \
    return (changed) && no_room() ? -1 : real gives;             \
  }

/* What does not fit is written by half, as on real disks; and half is there before the rest, so that a kill tears it. */
ssize_t write(int file, const void *bytes, size_t count) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  if (!on_disk(file)) return real(file, bytes, count);
  const int full = no_room();
  if (!full && (count < 2 || !delay())) return real(file, bytes, count);
  const ssize_t first = count < 2 ? 0 : real(file, bytes, count / 2);
  if (full) return errno = ENOSPC, -1;
  if (first < (ssize_t)(count / 2)) return first;
  wait_for_disk();
  const ssize_t second = real(file, (const char *)bytes + first, count - first);
  return second < 0 ? first : first + second;
}

FAULTY(ssize_t, pwrite, on_disk(file), (int file, const void *bytes, size_t count, off_t at), (file, bytes, count, at))
FAULTY(ssize_t, pwrite64, on_disk(file), (int file, const void *bytes, size_t count, off_t at), (file, bytes, count, at))
FAULTY(ssize_t, writev, on_disk(file), (int file, const struct iovec *parts, int count), (file, parts, count))
FAULTY(int, fsync, on_disk(file), (int file), (file))
FAULTY(int, fdatasync, on_disk(file), (int file), (file))
FAULTY(int, rename, 1, (const char *from, const char *to), (from, to))
FAULTY(int, mkdir, 1, (const char *path, mode_t mode), (path, mode))
