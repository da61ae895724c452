/* A library for LD_PRELOAD that counts the calls by which a tree of processes changes files, and makes one of them fail.
 *
 * Counted: calls of libc that create, write, cut, name, remove or sync a file below FAULT_ROOT, in every process that inherits the environment. The
 * counter lies in a file that all of them map, so call N is the N-th of the whole tree. What a process writes through a memory map or inside of stdio is
 * not seen; git and SQLite write no file of the repository that way, except SQLite's -shm, which holds nothing to keep.
 *
 *   FAULT_STATE  file of 64 bytes: the counter, then the number of processes. Each process keeps a shared flock on it: who gets it exclusively
 *                knows that all are gone
 *   FAULT_ROOT   only paths below this count
 *   FAULT_SPARE  and this one, which never fails: the answer that the user reads
 *   FAULT_KEEP   a directory for what a rename replaces and an unlink removes, by the number of the call
 *   FAULT_LOG    each call that succeeded: number, pid, name, path, and what belongs to the name, by tabs
 *   FAULT_AT     the call that fails; 0: none
 *   FAULT_MODE   kill: the process group dies before the call. enospc, eio: the call and all later ones that need room fail; a write of which half still
 *                fits comes first. short: one write is done by half, as a signal does it
 *   FAULT_ONCE   only this call fails
 *   FAULT_ALONE  with kill: only the process that makes the call dies
 *   FAULT_CLOCK  seconds by which the clock is wrong
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })
#define ROOM 1  /* needs space on the disk */
#define BYTES 2 /* a write, which may be done by half */

static unsigned long *state;
static unsigned long at;
static int mode, once, alone; /* mode: 'k', 's', or an errno */
static const char *root, *spare, *logfile, *kept;
static long shift;

__attribute__((constructor)) static void start(void)
{
	const char *name = getenv("FAULT_STATE"), *value;
	int fd = name ? syscall(SYS_openat, AT_FDCWD, name, O_RDWR) : -1;
	if (fd < 0)
		return;
	root = getenv("FAULT_ROOT");
	spare = getenv("FAULT_SPARE");
	logfile = getenv("FAULT_LOG");
	kept = getenv("FAULT_KEEP");
	at = (value = getenv("FAULT_AT")) ? strtoul(value, NULL, 10) : 0;
	alone = getenv("FAULT_ALONE") != NULL;
	once = alone || getenv("FAULT_ONCE");
	shift = (value = getenv("FAULT_CLOCK")) ? strtol(value, NULL, 10) : 0;
	value = getenv("FAULT_MODE");
	mode = !value || !strcmp(value, "kill") ? 'k' : !strcmp(value, "short") ? 's' : !strcmp(value, "enospc") ? ENOSPC : EIO;
	state = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (state == MAP_FAILED) {
		state = NULL;
		return;
	}
	__atomic_fetch_add(&state[1], 1, __ATOMIC_SEQ_CST);
	/* A high number, out of the way of programs that expect the next free one. */
	int high = fcntl(fd, F_DUPFD, 900);
	if (high >= 0) {
		syscall(SYS_close, fd);
		fd = high;
	}
	flock(fd, LOCK_SH);
}

static int below(const char *path)
{
	size_t n = root ? strlen(root) : 0;
	if (spare && !strcmp(path, spare))
		return 1;
	return n && !strncmp(path, root, n) && (path[n] == '/' || !path[n]);
}

/* The absolute path of a name, or of an open file where the name is NULL. */
static void absolute(char *out, int dir, const char *name)
{
	char link[64];
	ssize_t n = 0;
	out[0] = 0;
	if (name && name[0] == '/') {
		snprintf(out, PATH_MAX, "%s", name);
		return;
	}
	if (dir == AT_FDCWD)
		strcpy(link, "/proc/self/cwd");
	else
		snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
	n = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
	out[n > 0 ? n : 0] = 0;
	if (name && n > 0)
		snprintf(out + n, PATH_MAX - n, "/%s", name);
}

/* Counts a call. 0: go on. -1: it fails with errno. 1: a write to be done by half. */
static int before(const char *path, int kind, unsigned long *number)
{
	*number = 0;
	if (!state || !below(path))
		return 0;
	*number = __atomic_add_fetch(&state[0], 1, __ATOMIC_SEQ_CST);
	if (!at || *number < at || (once && *number > at))
		return 0;
	if (mode == 'k') {
		kill(alone ? getpid() : 0, SIGKILL);
		for (;;)
			pause();
	}
	if (spare && !strcmp(path, spare))
		return 0;
	if (mode == 's')
		return *number == at && (kind & BYTES);
	if (!(kind & ROOM))
		return 0;
	if (*number == at && (kind & BYTES) && mode == ENOSPC)
		return 1;
	errno = mode;
	return -1;
}

static void after(unsigned long number, const char *call, const char *path, const char *more)
{
	char line[3 * PATH_MAX];
	int kept = errno, fd, n;
	if (!number || !logfile)
		return;
	n = snprintf(line, sizeof line, "%lu\t%d\t%s\t%s\t%s\n", number, (int)getpid(), call, path, more);
	fd = syscall(SYS_openat, AT_FDCWD, logfile, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0) {
		(void)!syscall(SYS_write, fd, line, n);
		syscall(SYS_close, fd);
	}
	errno = kept;
}

/* A second name for a file that is about to lose this one. */
static void keep(const char *path, unsigned long number)
{
	char other[PATH_MAX];
	int saved = errno;
	if (!number || !kept)
		return;
	snprintf(other, sizeof other, "%s/%lu", kept, number);
	syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, other, 0);
	errno = saved;
}

/* Opening */

static int there(const char *path)
{
	struct stat s;
	return !fstatat(AT_FDCWD, path, &s, AT_SYMLINK_NOFOLLOW);
}

#define OPENING(dir, name, flags, call) do { \
	char path[PATH_MAX]; unsigned long number = 0; int fd, new; \
	if (((flags) & O_ACCMODE) == O_RDONLY && !((flags) & (O_CREAT | O_TRUNC))) return call; \
	absolute(path, dir, name); \
	new = state && below(path) && !there(path); \
	if (before(path, new ? ROOM : 0, &number) < 0) return -1; \
	fd = call; \
	if (fd >= 0) after(number, "open", path, new ? "new" : (flags) & O_TRUNC ? "cut" : ""); \
	return fd; } while (0)
#define MODE(flags) mode_t mode = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); }

int open(const char *name, int flags, ...) { MODE(flags) OPENING(AT_FDCWD, name, flags, REAL(open)(name, flags, mode)); }
int open64(const char *name, int flags, ...) { MODE(flags) OPENING(AT_FDCWD, name, flags, REAL(open64)(name, flags, mode)); }
int openat(int dir, const char *name, int flags, ...) { MODE(flags) OPENING(dir, name, flags, REAL(openat)(dir, name, flags, mode)); }
int openat64(int dir, const char *name, int flags, ...) { MODE(flags) OPENING(dir, name, flags, REAL(openat64)(dir, name, flags, mode)); }
int __open_2(const char *name, int flags) { OPENING(AT_FDCWD, name, flags, REAL(open)(name, flags)); }
int __open64_2(const char *name, int flags) { OPENING(AT_FDCWD, name, flags, REAL(open64)(name, flags)); }
int creat(const char *name, mode_t mode) { return open(name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return open64(name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static FILE *stream(const char *name, const char *how, FILE *(*real)(const char *, const char *))
{
	char path[PATH_MAX];
	unsigned long number;
	FILE *f;
	if (how[0] == 'r' && !strchr(how, '+'))
		return real(name, how);
	absolute(path, AT_FDCWD, name);
	int new = state && below(path) && !there(path);
	if (before(path, new ? ROOM : 0, &number) < 0)
		return NULL;
	f = real(name, how);
	if (f)
		after(number, "open", path, new ? "new" : how[0] == 'w' ? "cut" : "");
	return f;
}
FILE *fopen(const char *name, const char *how) { return stream(name, how, REAL(fopen)); }
FILE *fopen64(const char *name, const char *how) { return stream(name, how, REAL(fopen64)); }

/* Writing through a descriptor. `half`: the same call for a part of the bytes. */

#define WRITING(fd, size, call, half) do { \
	char path_[PATH_MAX]; unsigned long number_ = 0; ssize_t done_; int what_ = 0; \
	if (state) { absolute(path_, fd, NULL); what_ = before(path_, ROOM | BYTES, &number_); } \
	if (what_ < 0) return -1; \
	done_ = what_ && (size) > 1 ? half : call; \
	if (done_ >= 0) after(number_, "write", path_, ""); \
	return done_; } while (0)

ssize_t write(int fd, const void *b, size_t n) { WRITING(fd, n, REAL(write)(fd, b, n), REAL(write)(fd, b, n / 2)); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { WRITING(fd, n, REAL(pwrite)(fd, b, n, o), REAL(pwrite)(fd, b, n / 2, o)); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { WRITING(fd, n, REAL(pwrite64)(fd, b, n, o), REAL(pwrite64)(fd, b, n / 2, o)); }
ssize_t writev(int fd, const struct iovec *v, int n) { WRITING(fd, v->iov_len, REAL(writev)(fd, v, n), REAL(write)(fd, v->iov_base, v->iov_len / 2)); }

#define CHANGING(name, dir, file, kind, call, more) do { \
	char path[PATH_MAX]; unsigned long number = 0; int rc; \
	if (!state) return call; \
	absolute(path, dir, file); \
	if (before(path, kind, &number) < 0) return -1; \
	if (!strcmp(name, "unlink")) keep(path, number); \
	rc = call; \
	if (!rc) after(number, name, path, more); \
	return rc; } while (0)

int ftruncate(int fd, off_t n) { CHANGING("cut", fd, NULL, 0, REAL(ftruncate)(fd, n), ""); }
int ftruncate64(int fd, off64_t n) { CHANGING("cut", fd, NULL, 0, REAL(ftruncate64)(fd, n), ""); }
int fsync(int fd) { CHANGING("sync", fd, NULL, ROOM, REAL(fsync)(fd), ""); }
int fdatasync(int fd) { CHANGING("sync", fd, NULL, ROOM, REAL(fdatasync)(fd), ""); }

/* A close changes nothing; on some disks it is where a write error is told, so it may fail but is no place to die. */
int close(int fd)
{
	char path[PATH_MAX];
	unsigned long number;
	int flags = state ? fcntl(fd, F_GETFL) : -1;
	if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && mode == EIO) {
		absolute(path, fd, NULL);
		if (before(path, ROOM, &number) < 0) {
			REAL(close)(fd);
			errno = EIO;
			return -1;
		}
	}
	return REAL(close)(fd);
}

/* Names */

#define TWO(name, olddir, old, newdir, new, kind, call) do { \
	char path[PATH_MAX], other[PATH_MAX]; unsigned long number = 0; int rc; \
	if (!state) return call; \
	absolute(path, olddir, old); absolute(other, newdir, new); \
	if (before(other, kind, &number) < 0) return -1; \
	if (!strcmp(name, "rename")) keep(other, number); \
	rc = call; \
	if (!rc) after(number, name, path, other); \
	return rc; } while (0)

int rename(const char *a, const char *b) { TWO("rename", AT_FDCWD, a, AT_FDCWD, b, ROOM, REAL(rename)(a, b)); }
int renameat(int d, const char *a, int e, const char *b) { TWO("rename", d, a, e, b, ROOM, REAL(renameat)(d, a, e, b)); }
int link(const char *a, const char *b) { TWO("link", AT_FDCWD, a, AT_FDCWD, b, ROOM, REAL(link)(a, b)); }
int linkat(int d, const char *a, int e, const char *b, int f) { TWO("link", d, a, e, b, ROOM, REAL(linkat)(d, a, e, b, f)); }
int symlink(const char *a, const char *b) { CHANGING("symlink", AT_FDCWD, b, ROOM, REAL(symlink)(a, b), ""); }
int unlink(const char *a) { CHANGING("unlink", AT_FDCWD, a, 0, REAL(unlink)(a), ""); }
int unlinkat(int d, const char *a, int f) { CHANGING(f & AT_REMOVEDIR ? "rmdir" : "unlink", d, a, 0, REAL(unlinkat)(d, a, f), ""); }
int rmdir(const char *a) { CHANGING("rmdir", AT_FDCWD, a, 0, REAL(rmdir)(a), ""); }
int mkdir(const char *a, mode_t m) { CHANGING("mkdir", AT_FDCWD, a, ROOM, REAL(mkdir)(a, m), ""); }
int mkdirat(int d, const char *a, mode_t m) { CHANGING("mkdir", d, a, ROOM, REAL(mkdirat)(d, a, m), ""); }

/* The clock */

int clock_gettime(clockid_t id, struct timespec *t)
{
	int rc = REAL(clock_gettime)(id, t);
	if (!rc && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += shift;
	return rc;
}
int gettimeofday(struct timeval *t, void *zone)
{
	int rc = REAL(gettimeofday)(t, zone);
	if (!rc)
		t->tv_sec += shift;
	return rc;
}
time_t time(time_t *out)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}
