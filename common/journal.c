#include "common/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/bytes.h"
#include "common/file.h"
#include "common/sort.h"
#include "common/system.h"
#include "common/units.h"

#define EVERY "DLSCALE_JOURNAL_S"
#define PATIENCE_NS (2 * DL_NS_PER_S)
#define FILE_BYTES_MAX (SIZE_MAX / 2)

typedef struct head {
    char magic[8];
    uint64_t key;
    int64_t jobs;
} head;

typedef struct record_head {
    uint64_t checksum; /* checksum of the rest */
    int64_t job;
    uint64_t bytes;
} record_head;

static const char magic[8] = {'d', 'l', 'j', 'o', 'u', 'r', 'n', '1'};

/* A record of an earlier run. */
typedef struct found {
    int64_t job;
    size_t at, bytes; /* position in `text` */
} found;

const char *const dl_journal_modes[] = {"resume", "restart", "off", NULL};

struct dl_journal {
    char *path;
    char *aside; /* new name of another run's journal; NULL: none */
    int fd;      /* -1: no file yet */
    head head;
    off_t end;    /* end of the valid part of the file; 0: the file has no valid head */
    char *text;   /* content left by the earlier run */
    found *found; /* [found_count] records of the earlier run, by job */
    size_t found_count;
    dl_bytes pending;
    int64_t opened_ns, flushed_ns;
    int64_t every_ns; /* flush interval */
};

static uint64_t checksum(const record_head *record, const void *data)
{
    uint64_t hash = dl_hash_bytes(DL_HASH_START, &record->job, sizeof record->job);
    hash = dl_hash_bytes(hash, &record->bytes, sizeof record->bytes);
    return dl_hash_bytes(hash, data, record->bytes);
}

/* Returns whether the open file is still the one at the path; its last owner may have removed
 * it. */
static bool is_at(int fd, const char *path)
{
    struct stat opened, there;
    return fstat(fd, &opened) == 0 && stat(path, &there) == 0 && opened.st_dev == there.st_dev &&
           opened.st_ino == there.st_ino;
}

/* Opens and locks the file, which must exist unless `create`. Returns -1 with errno, EBUSY if
 * another run holds it for PATIENCE_NS: a killed run may take a while to end, also on another
 * host. */
static int take_file(const char *path, bool create)
{
    const int64_t start_ns = dl_clock_ns();
    const struct timespec nap = {.tv_nsec = 50000000};
    for (;;) {
        const int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0666);
        if (fd < 0) return -1;
        const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        /* On a file system without locks no other run holds a lock either. */
        const bool is_held = !locked && (errno == EWOULDBLOCK || errno == EINTR);
        if (!is_held && is_at(fd, path)) return fd;
        close(fd);
        if (is_held && dl_clock_ns() - start_ns >= PATIENCE_NS) {
            errno = EBUSY;
            return -1;
        }
        if (is_held) nanosleep(&nap, NULL);
    }
}

static dl_status cannot(const char *path, const char *what, int reason, dl_error *err)
{
    if (reason == EBUSY) {
        return dl_error_set_at(
            err, DL_ERR_IO, path, 0,
            "another run is writing this journal: give each run its own output file");
    }
    return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot %s: %s", what, strerror(reason));
}

/* Removes an earlier run's journal, if there is one. */
static dl_status discard(const char *path, dl_error *err)
{
    struct stat file;
    if (stat(path, &file) == 0 && !S_ISREG(file.st_mode))
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "is no regular file");
    const int fd = take_file(path, false);
    if (fd < 0 && errno == ENOENT) return DL_OK;
    if (fd < 0) return cannot(path, "open", errno, err);
    const int reason = unlink(path) == 0 ? 0 : errno;
    close(fd);
    return reason == 0 ? DL_OK : cannot(path, "remove", reason, err);
}

dl_status dl_journal_beside(char **path, const char *output, dl_journal_mode mode, dl_error *err)
{
    struct stat file;
    *path = NULL;
    if (mode == DL_JOURNAL_OFF || output == NULL ||
        (stat(output, &file) == 0 && !S_ISREG(file.st_mode))) {
        return DL_OK;
    }
    *path = dl_format("%s.journal", output);
    return mode == DL_JOURNAL_RESTART ? discard(*path, err) : DL_OK;
}

DL_ORDER(by_job, found, DL_BY(job), DL_BY(at));

/* Returns the name under which a run's journal is set aside; the caller frees it. */
static char *aside_path(const char *path, uint64_t key)
{
    return dl_format("%s.%016llx", path, (unsigned long long)key);
}

/* Renames another run's journal after that run's key, so that it can resume later; the next flush
 * creates a new one. */
static dl_status set_aside(dl_journal *journal, uint64_t key, dl_error *err)
{
    free(journal->aside); /* set by an earlier call, if the restored journal was also set aside */
    journal->aside = aside_path(journal->path, key);
    const int reason = rename(journal->path, journal->aside) == 0 ? 0 : errno;
    close(journal->fd);
    free(journal->text);
    journal->fd = -1;
    journal->text = NULL;
    return reason == 0 ? DL_OK : cannot(journal->path, "rename", reason, err);
}

/* Reads the records of journal->text[bytes], up to the first invalid one. */
static dl_status read_records(dl_journal *journal, size_t bytes, dl_error *err)
{
    dl_bytes_left left = {(const unsigned char *)journal->text, bytes};
    head read;
    /* A run killed before writing the head left nothing to read. */
    if (bytes < sizeof read && memcmp(journal->text, magic, bytes < 8 ? bytes : 8) == 0) {
        return DL_OK;
    }
    if (!dl_bytes_take(&left, &read, sizeof read) || memcmp(read.magic, magic, 8) != 0) {
        return dl_error_set_at(err, DL_ERR_DATA, journal->path, 0, "is no journal of this program");
    }
    if (read.key != journal->head.key || read.jobs != journal->head.jobs)
        return set_aside(journal, read.key, err);
    for (;;) {
        record_head record;
        journal->end = (off_t)(bytes - left.count);
        if (!dl_bytes_take(&left, &record, sizeof record)) break;
        if (record.bytes > left.count || record.job < 0) break;
        if (record.checksum != checksum(&record, left.at)) break;
        DL_APPEND(journal->found, journal->found_count, "records of a journal") =
            (found){.job = record.job, .at = bytes - left.count, .bytes = record.bytes};
        dl_bytes_take(&left, NULL, record.bytes);
    }
    if (journal->found_count > 1) {
        qsort(journal->found, journal->found_count, sizeof *journal->found, by_job);
    }
    return DL_OK;
}

/* Adds the program to the key: results of different builds must not be mixed. */
static uint64_t add_program(uint64_t key)
{
    DL_AUTOFREE char *program = dl_system_program();
    struct stat file = {0};
    if (program != NULL && stat(program, &file) == 0) {
        key = dl_hash_bytes(key, &file.st_size, sizeof file.st_size);
        key = dl_hash_bytes(key, &file.st_mtim, sizeof file.st_mtim);
    }
    return dl_hash_bytes(key, DL_VERSION, sizeof DL_VERSION);
}

/* Reads the file, if it exists. */
static dl_status read_file(dl_journal *journal, dl_error *err)
{
    struct stat file;
    size_t bytes = 0;
    if (stat(journal->path, &file) == 0 && !S_ISREG(file.st_mode))
        return dl_error_set_at(err, DL_ERR_IO, journal->path, 0, "is no regular file");
    journal->fd = take_file(journal->path, false);
    if (journal->fd < 0) return errno == ENOENT ? DL_OK : cannot(journal->path, "open", errno, err);
    const dl_status status =
        dl_file_read_up_to(journal->path, FILE_BYTES_MAX, &journal->text, &bytes, err);
    return status == DL_OK ? read_records(journal, bytes, err) : status;
}

/* Restores this run's journal if another run had set it aside; returns whether it had. */
static bool bring_back(const dl_journal *journal)
{
    DL_AUTOFREE char *aside = aside_path(journal->path, journal->head.key);
    return rename(aside, journal->path) == 0;
}

void dl_journal_say_aside(const dl_journal *journal, const char *program)
{
    if (journal == NULL || journal->aside == NULL) return;
    fprintf(stderr, "%s: %s is of another, unfinished run; it is kept as %s\n", program,
            journal->path, journal->aside);
}

/* Reads the flush interval from the environment. */
static dl_status read_every(int64_t *every_ns, dl_error *err)
{
    const char *text = getenv(EVERY);
    dl_error reason = {0};
    double seconds = 1;
    if (text != NULL && dl_parse_double(text, 1e-3, 3600, &seconds, &reason) != DL_OK)
        return dl_error_set_at(err, DL_ERR_DATA, EVERY, 0, "%s", reason.text);
    *every_ns = (int64_t)(seconds * (double)DL_NS_PER_S);
    return DL_OK;
}

dl_status dl_journal_open(dl_journal **journal, const char *path, uint64_t key, int64_t jobs,
                          dl_error *err)
{
    int64_t every_ns = 0;
    const dl_status read = read_every(&every_ns, err);
    if (read != DL_OK) return read;
    dl_journal *j = dl_calloc(1, sizeof *j, "journal");
    *j = (dl_journal){.path = dl_strdup(path),
                      .fd = -1,
                      .head = {.key = add_program(key), .jobs = jobs},
                      .every_ns = every_ns};
    memcpy(j->head.magic, magic, sizeof magic);
    j->opened_ns = j->flushed_ns = dl_clock_ns();
    dl_status status = read_file(j, err);
    if (status == DL_OK && j->fd < 0 && bring_back(j)) status = read_file(j, err);
    if (status == DL_OK) *journal = j;
    if (status != DL_OK) dl_journal_end(j, false);
    return status;
}

bool dl_journal_find(const dl_journal *journal, int64_t job, const void **data, size_t *bytes)
{
    size_t after = 0; /* of the job's last record: it may have been done twice */
    DL_BISECT(after, journal->found_count, journal->found[after].job <= job);
    if (after == 0 || journal->found[after - 1].job != job) return false;
    *data = journal->text + journal->found[after - 1].at;
    *bytes = journal->found[after - 1].bytes;
    return true;
}

size_t dl_journal_count(const dl_journal *journal)
{
    return journal->found_count;
}

bool dl_journal_is_kept(const dl_journal *journal)
{
    return journal->found_count > 0 || dl_clock_ns() - journal->opened_ns >= 2 * journal->every_ns;
}

void dl_journal_add(dl_journal *journal, int64_t job, const void *data, size_t bytes)
{
    record_head record = {.job = job, .bytes = bytes};
    record.checksum = checksum(&record, data);
    dl_bytes_add(&journal->pending, &record, sizeof record);
    dl_bytes_add(&journal->pending, data, bytes);
}

bool dl_journal_due(const dl_journal *journal)
{
    return journal->pending.count > 0 && dl_clock_ns() - journal->flushed_ns >= journal->every_ns;
}

/* Appends to the valid part; returns 0 or an errno value. */
static int append(dl_journal *journal, const void *data, size_t bytes)
{
    if (lseek(journal->fd, journal->end, SEEK_SET) < 0) return errno;
    const int failed = dl_file_write(journal->fd, data, bytes);
    if (failed == 0) journal->end += (off_t)bytes;
    return failed;
}

dl_status dl_journal_flush(dl_journal *journal, dl_error *err)
{
    int reason = 0;
    if (journal->pending.count == 0) return DL_OK;
    if (journal->fd < 0 && (journal->fd = take_file(journal->path, true)) < 0) {
        return cannot(journal->path, "create", errno, err);
    }
    /* A run killed while writing may have left bytes after the valid part. */
    if (ftruncate(journal->fd, journal->end) != 0) reason = errno;
    const off_t good = journal->end;
    if (reason == 0 && journal->end == 0) {
        reason = append(journal, &journal->head, sizeof journal->head);
    }
    if (reason == 0) reason = append(journal, journal->pending.data, journal->pending.count);
    if (reason == 0 && fdatasync(journal->fd) != 0 && errno != EINVAL) reason = errno;
    journal->flushed_ns = dl_clock_ns();
    if (reason != 0) {
        journal->end = good;
        return cannot(journal->path, "write", reason, err);
    }
    journal->pending.count = 0;
    return DL_OK;
}

void dl_journal_end(dl_journal *journal, bool done)
{
    if (journal == NULL) return;
    if (journal->fd >= 0) {
        if (done) unlink(journal->path);
        close(journal->fd);
    }
    free(journal->pending.data);
    free(journal->text);
    free(journal->found);
    free(journal->path);
    free(journal->aside);
    free(journal);
}
