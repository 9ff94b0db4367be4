/* A disk on which whatever changes a file takes SLOW_DISK_MS milliseconds: to be preloaded (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

static void wait_for_disk(void) {
  const char *said = getenv("SLOW_DISK_MS");
  long ms = said ? atol(said) : 0;
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left)) {
  }
}

static int on_disk(int file) {
  struct stat about;
  return fstat(file, &about) == 0 && S_ISREG(about.st_mode);
}

#define SLOW(type, name, takes, gives)                        \
  type name takes {                                           \
    static type(*real) takes;                                 \
    if (!real) real = (type(*) takes)dlsym(RTLD_NEXT, #name); \
    if (on_disk(file)) wait_for_disk();                       \
    return real gives;                                        \
  }

/* Half of it is there before the other half begins, so that a kill finds what is torn. */
ssize_t write(int file, const void *bytes, size_t count) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  if (count < 2 || !on_disk(file)) return real(file, bytes, count);
  ssize_t first = real(file, bytes, count / 2);
  if (first < (ssize_t)(count / 2)) return first;
  wait_for_disk();
  ssize_t second = real(file, (const char *)bytes + first, count - first);
  return second < 0 ? first : first + second;
}

SLOW(ssize_t, pwrite64, (int file, const void *bytes, size_t count, off_t at), (file, bytes, count, at))
SLOW(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
SLOW(int, fsync, (int file), (file))
SLOW(int, fdatasync, (int file), (file))
SLOW(int, ftruncate64, (int file, off_t size), (file, size))

int rename(const char *from, const char *to) {
  static int (*real)(const char *, const char *);
  if (!real) real = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
  wait_for_disk();
  return real(from, to);
}
