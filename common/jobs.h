/* Runs many jobs, known by their numbers, on the threads of this process and, if a launcher started
 * several, of all ranks (common/cluster.h).
 *
 * Each thread takes the next job when it has ended one. Rank 0 hands jobs to the others in portions
 * of at most 50 ms for each of their threads, and fewer towards the end; a rank asks for the next
 * portion while it still has one. In rank 0 the calling thread answers them and computes nothing.
 *
 * Each job has a place of its own for its result, so the results depend on neither the number of
 * threads nor that of ranks; rank 0 has all results, the others none that they can use. When a job
 * fails, higher-numbered jobs are not started and lower-numbered ones are done: the error is always
 * that of the first job that fails. */
#ifndef DL_COMMON_JOBS_H
#define DL_COMMON_JOBS_H

#include <stdint.h>

#include "common/bytes.h"
#include "common/cluster.h"
#include "common/journal.h"
#include "common/status.h"

/* Called now and then, by one thread at a time, on rank 0; before the first job with the number of
 * those that a journal has. */
typedef void (*dl_progress_fn)(void *user, int64_t done, int64_t count);

typedef struct dl_jobs {
    int64_t count;
    int threads; /* >= 1, of this rank */
    void *user;
    /* Runs a job; several run at once, in several threads, with the caller's locale. */
    dl_status (*run)(void *user, int64_t job, dl_error *err);
    /* Appends the job's result to `into`, and reads it back from such bytes: returns false and
     * changes nothing if they are no result of that job. NULL without ranks and journal. */
    void (*encode)(void *user, int64_t job, dl_bytes *into);
    bool (*decode)(void *user, int64_t job, const void *data, size_t bytes);
    dl_progress_fn progress; /* may be NULL */
    void *progress_user;
    dl_cluster *cluster; /* NULL: this process alone */
    /* On rank 0: jobs that it has are not run again, and finished jobs are added once it is kept
     * (dl_journal_is_kept), job 0 as journal_first. The caller flushes and ends it. NULL: none. */
    dl_journal *journal;
    int64_t journal_first;
} dl_jobs;

/* Runs all jobs; all ranks call it, with the same jobs. Returns the error of the first job that
 * fails; DL_ERR_SYSTEM if a thread cannot be started or a message does not arrive; the errors of
 * dl_journal_flush. The other ranks return rank 0's error. */
dl_status dl_jobs_run(const dl_jobs *jobs, dl_error *err) DL_MUST_CHECK;

#endif
