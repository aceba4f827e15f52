/* Journal of finished jobs, from which an interrupted run resumes.
 *
 *   head     "dljourn1", key, number of jobs
 *   records  checksum, job, number of bytes, the bytes
 *
 * Numbers have 64 bits in the machine's byte order: only the program that wrote the file reads it.
 * The file is appended to and synchronised about once per second, or every DLSCALE_JOURNAL_S
 * seconds (environment variable, 0.001 to 3600), so that an interruption costs little more than
 * that; a run that takes less than twice as long leaves no file. A record is valid if its checksum
 * (FNV-1a of the bytes after it) is right; reading ends at the first invalid one, as after a power
 * failure, and new records overwrite the rest.
 *
 * A run holds a lock on the file (flock); another run waits for two seconds, then fails. */
#ifndef DL_COMMON_JOURNAL_H
#define DL_COMMON_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef struct dl_journal dl_journal;

/* Treatment of an earlier run's journal, the values of --journal. */
typedef enum dl_journal_mode {
    DL_JOURNAL_RESUME,
    DL_JOURNAL_RESTART,
    DL_JOURNAL_OFF
} dl_journal_mode;
extern const char *const dl_journal_modes[]; /* names of the modes, NULL-terminated */

/* Sets *path to "FILE.journal", which the caller frees; NULL for no journal, because `output` is
 * NULL or exists and is not a regular file, or because of `mode`. Removes an earlier run's journal
 * if `mode` requires it: DL_ERR_IO if another process holds it. */
dl_status dl_journal_beside(char **path, const char *output, dl_journal_mode mode,
                            dl_error *err) DL_MUST_CHECK;

/* Opens the journal at `path` and reads its records; without a file, the first flush creates it.
 * `key` is a hash of everything that determines the jobs' results, except the program, whose
 * version, size and date are added; `jobs` is the number of jobs at the start of the run. A file of
 * a different run (key, jobs) is set aside. Returns DL_ERR_DATA if the file is not a journal, or
 * DLSCALE_JOURNAL_S is invalid; DL_ERR_IO if the file cannot be read or another process holds it.
 * Release with dl_journal_end. */
dl_status dl_journal_open(dl_journal **journal, const char *path, uint64_t key, int64_t jobs,
                          dl_error *err) DL_MUST_CHECK;

/* Prints to standard error where another run's journal was moved; accepts NULL. */
void dl_journal_say_aside(const dl_journal *journal, const char *program);

/* Finds a job's record from an earlier run, valid until dl_journal_end; returns false if there is
 * none. */
bool dl_journal_find(const dl_journal *journal, int64_t job, const void **data, size_t *bytes);

/* Returns the number of records from earlier runs. */
size_t dl_journal_count(const dl_journal *journal);

/* Returns whether finished jobs must be added: an earlier run's journal was read, or this journal
 * has been open for twice the flush interval. */
bool dl_journal_is_kept(const dl_journal *journal);

/* Adds a job's record in memory. Not thread-safe: the caller locks. */
void dl_journal_add(dl_journal *journal, int64_t job, const void *data, size_t bytes);

/* Returns whether records are pending and the flush interval has passed. */
bool dl_journal_due(const dl_journal *journal);

/* Writes the added records, and waits until they are on disk. Returns DL_ERR_IO with the system's
 * reason; earlier records remain valid. */
dl_status dl_journal_flush(dl_journal *journal, dl_error *err) DL_MUST_CHECK;

/* Closes the journal, and removes the file if `done`. Accepts NULL. Unflushed records are lost. */
void dl_journal_end(dl_journal *journal, bool done);

#endif
