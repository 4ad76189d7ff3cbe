/* Notes what a program does to names and which contents it syncs below $POWER_ROOT, so that a power cut can be played. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

static void note(const char *kind, const char *first, const char *second) {
    char line[3 * PATH_MAX];
    const char *log = getenv("POWER_LOG");
    int size = snprintf(line, sizeof line, "%s\t%s\t%s\n", kind, first, second);
    int file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (write(file, line, size) != size) abort();
    close(file);
}

static int whole(int folder, const char *path, char *out) { /* absolute, links in folders resolved; 1 below the root */
    char place[PATH_MAX], head[PATH_MAX];
    if (path[0] == '/') snprintf(place, sizeof place, "%s", path);
    else if (folder == AT_FDCWD) { if (!getcwd(head, sizeof head)) return 0; snprintf(place, sizeof place, "%s/%s", head, path); }
    else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t size = readlink(link, head, sizeof head - 1);
        if (size < 0) return 0;
        head[size] = 0;
        snprintf(place, sizeof place, "%s/%s", head, path);
    }
    const char *root = getenv("POWER_ROOT");
    snprintf(out, PATH_MAX, "%s", place);
    return root && !strncmp(out, root, strlen(root));
}

static int opened(int folder, const char *path, int flags, mode_t mode) {
    char place[PATH_MAX];
    int below = (flags & O_CREAT) && whole(folder, path, place) && access(place, F_OK);
    int file = syscall(SYS_openat, folder, path, flags, mode);
    if (file >= 0 && below) note("create", place, "");
    return file;
}

int open(const char *path, int flags, ...) {
    va_list rest; va_start(rest, flags); mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; va_end(rest);
    return opened(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    va_list rest; va_start(rest, flags); mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; va_end(rest);
    return opened(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
    va_list rest; va_start(rest, flags); mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; va_end(rest);
    return opened(folder, path, flags, mode);
}
int rename(const char *from, const char *to) {
    char first[PATH_MAX], second[PATH_MAX];
    int below = whole(AT_FDCWD, from, first) & whole(AT_FDCWD, to, second), done = REAL(rename)(from, to);
    if (!done && below) note("rename", first, second);
    return done;
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    char first[PATH_MAX], second[PATH_MAX];
    int below = whole(a, from, first) & whole(b, to, second), done = syscall(SYS_renameat2, a, from, b, to, flags);
    if (!done && below) note(flags & 2 ? "exchange" : "rename", first, second);
    return done;
}
int link(const char *from, const char *to) {
    char first[PATH_MAX], second[PATH_MAX];
    int below = whole(AT_FDCWD, from, first) & whole(AT_FDCWD, to, second), done = REAL(link)(from, to);
    if (!done && below) note("link", first, second);
    return done;
}
int unlink(const char *path) {
    char place[PATH_MAX];
    int below = whole(AT_FDCWD, path, place), done = REAL(unlink)(path);
    if (!done && below) note("remove", place, "");
    return done;
}
int unlinkat(int folder, const char *path, int flags) {
    char place[PATH_MAX];
    int below = whole(folder, path, place), done = REAL(unlinkat)(folder, path, flags);
    if (!done && below) note("remove", place, "");
    return done;
}
int rmdir(const char *path) {
    char place[PATH_MAX];
    int below = whole(AT_FDCWD, path, place), done = REAL(rmdir)(path);
    if (!done && below) note("remove", place, "");
    return done;
}
int mkdir(const char *path, mode_t mode) {
    char place[PATH_MAX];
    int below = whole(AT_FDCWD, path, place), done = REAL(mkdir)(path, mode);
    if (!done && below) note("folder", place, "");
    return done;
}

static void synced(int file) {
    static int count;
    char link[64], place[PATH_MAX], copy[PATH_MAX], block[1 << 16];
    struct stat kind;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, place, sizeof place - 1);
    if (size < 0 || fstat(file, &kind)) return;
    place[size] = 0;
    const char *root = getenv("POWER_ROOT");
    if (strncmp(place, root, strlen(root))) return;
    if (S_ISDIR(kind.st_mode)) { note("names", place, ""); return; }
    snprintf(copy, sizeof copy, "%s.%d.%d", getenv("POWER_LOG"), getpid(), __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST));
    int from = syscall(SYS_openat, AT_FDCWD, link, O_RDONLY, 0);
    int to = syscall(SYS_openat, AT_FDCWD, copy, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    while ((size = read(from, block, sizeof block)) > 0) if (write(to, block, size) != size) abort();
    close(from);
    close(to);
    note("content", place, copy);
}
int fsync(int file) { int done = REAL(fsync)(file); if (!done) synced(file); return done; }
int fdatasync(int file) { int done = REAL(fdatasync)(file); if (!done) synced(file); return done; }
