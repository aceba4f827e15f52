/* A journal of finished jobs, from which a run goes on after whatever ended it.
 *
 *   head     "dljourn1", key, number of jobs
 *   records  checksum, job, number of bytes, the bytes
 *
 * Numbers have 64 bits, as the machine stores them: the file is for the program that wrote it. It is
 * appended to and synchronised about once a second, so that whatever happens costs little more than
 * that. A record counts if its checksum (FNV-1a of what follows it) is right; reading ends at the
 * first that is not, as after a power failure, and what follows it is written again.
 *
 * The file is locked (flock) while a run has it; another one waits for two seconds, then fails. */
#ifndef DL_COMMON_JOURNAL_H
#define DL_COMMON_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define DL_JOURNAL_AFTER_NS ((int64_t)2000000000) /* runs that are shorter leave no file */

typedef struct dl_journal dl_journal;

/* A record of an earlier run; false: it is not one, and neither is what follows. */
typedef bool (*dl_journal_take_fn)(void *user, int64_t job, const void *data, size_t bytes);

/* Opens the journal at `path` if there is a file, and hands its records to `take`; else only keeps
 * the name, for the first flush. `key` stands for all that the jobs' results depend on but the
 * program, whose version, size and date are added; `jobs` is their number. DL_ERR_DATA if the file is another run's (key, jobs), or no journal; DL_ERR_IO if
 * it cannot be read or another process has it. End it with dl_journal_end. */
dl_status dl_journal_open(dl_journal **journal, const char *path, uint64_t key, int64_t jobs,
                          dl_journal_take_fn take, void *user, dl_error *err) DL_MUST_CHECK;

/* Records a job, in memory. Needs no lock of its own, but of the caller. */
void dl_journal_add(dl_journal *journal, int64_t job, const void *data, size_t bytes);

/* Whether a flush is due: a second after the last one. */
bool dl_journal_due(const dl_journal *journal);

/* Writes what was added, and waits until the disk has it. DL_ERR_IO with the system's reason; then
 * the records that were written before are still good. */
dl_status dl_journal_flush(dl_journal *journal, dl_error *err) DL_MUST_CHECK;

/* Closes it, and removes the file where `done`. NULL is fine. What was not flushed is lost. */
void dl_journal_end(dl_journal *journal, bool done);

#endif
