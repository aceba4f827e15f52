/* A journal of finished jobs, from which an interrupted run goes on.
 *
 *   head     "dljourn1", key, number of jobs
 *   records  checksum, job, number of bytes, the bytes
 *
 * Numbers have 64 bits, as the machine stores them: the file is for the program that wrote it. It
 * is appended to and synchronised about once a second, or every DLSCALE_JOURNAL_S seconds (of the
 * environment, 0.001 to 3600), so that an interruption costs little more than that; a run that
 * takes less than twice as long leaves no file. A record counts if its checksum (FNV-1a of the
 * bytes after it) is right; reading ends at the first wrong one, as after a power failure, and new
 * records overwrite the rest.
 *
 * A run holds a lock on the file (flock); another run waits for two seconds, then fails. */
#ifndef DL_COMMON_JOURNAL_H
#define DL_COMMON_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef struct dl_journal dl_journal;

/* Treatment of an earlier run's journal, as --journal names it. */
typedef enum dl_journal_mode {
    DL_JOURNAL_RESUME,
    DL_JOURNAL_RESTART,
    DL_JOURNAL_OFF
} dl_journal_mode;
extern const char *const dl_journal_modes[]; /* their names, NULL at the end */

/* Sets *path to "FILE.journal", to be freed; NULL if there is none, because `output` is NULL or not
 * a regular file, or `mode` says so. Removes an earlier run's if `mode` says so: DL_ERR_IO if
 * another process still has it. */
dl_status dl_journal_beside(char **path, const char *output, dl_journal_mode mode,
                            dl_error *err) DL_MUST_CHECK;

/* Opens the journal at `path` and reads its records; if there is no file, the first flush creates
 * it. `key` is a hash of all on which the jobs' results depend, except the program, whose version,
 * size and date are added; `jobs` is the number of jobs at the start of the run. A file of another
 * run (key, jobs) is set aside. DL_ERR_DATA if the file is no journal, or DLSCALE_JOURNAL_S no such
 * number; DL_ERR_IO if the file cannot be read or another process has it. End it with
 * dl_journal_end. */
dl_status dl_journal_open(dl_journal **journal, const char *path, uint64_t key, int64_t jobs,
                          dl_error *err) DL_MUST_CHECK;

/* Says on standard error where another run's journal was moved to; NULL is fine. */
void dl_journal_say_aside(const dl_journal *journal, const char *program);

/* Finds a job's record from an earlier run, valid until dl_journal_end; false: there is none. */
bool dl_journal_find(const dl_journal *journal, int64_t job, const void **data, size_t *bytes);

/* The number of these records. */
size_t dl_journal_count(const dl_journal *journal);

/* Whether finished jobs must be added: an earlier run's journal was read, or this journal has been
 * open for twice the interval of flushes. */
bool dl_journal_is_kept(const dl_journal *journal);

/* Records a job, in memory. Not thread-safe: the caller locks. */
void dl_journal_add(dl_journal *journal, int64_t job, const void *data, size_t bytes);

/* Whether records wait for a flush and the time between two flushes has passed. */
bool dl_journal_due(const dl_journal *journal);

/* Writes the added records, and waits until they are on disk. DL_ERR_IO with the system's reason;
 * earlier records remain valid. */
dl_status dl_journal_flush(dl_journal *journal, dl_error *err) DL_MUST_CHECK;

/* Closes it, and removes the file if `done`. NULL is fine. Records that were not flushed are
 * lost. */
void dl_journal_end(dl_journal *journal, bool done);

#endif
