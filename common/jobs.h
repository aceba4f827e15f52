/* Runs numbered jobs on the threads of this process and, if a launcher started several processes,
 * on all ranks (common/cluster.h).
 *
 * Each thread takes the next job when it has finished one. Rank 0 gives the other ranks jobs in
 * batches of about 50 ms per thread (at least one job each), smaller towards the end; a rank
 * requests the next batch before it has finished one. On rank 0 the calling thread answers requests
 * and runs no jobs.
 *
 * Each job has a separate result, so results depend neither on the number of threads nor on the
 * number of ranks; only rank 0 has all results. When a job fails, higher-numbered jobs are not
 * started and lower-numbered ones are completed: the error is always that of the first job that
 * fails. */
#ifndef DL_COMMON_JOBS_H
#define DL_COMMON_JOBS_H

#include <stdint.h>

#include "common/bytes.h"
#include "common/cluster.h"
#include "common/journal.h"
#include "common/status.h"

/* Called on rank 0 before any job runs, with the number of jobs taken from the journal, then after
 * each finished job; by one thread at a time. */
typedef void (*dl_progress_fn)(void *user, int64_t done, int64_t count);

typedef struct dl_jobs {
    int64_t count;
    int threads; /* >= 1, threads of this rank */
    void *user;
    /* Runs a job; called concurrently in several threads, with the caller's locale. */
    dl_status (*run)(void *user, int64_t job, dl_error *err);
    /* encode appends the job's result to `into`; decode reads it back, or returns false and changes
     * nothing if the bytes are not a result of that job. NULL without ranks and journal. */
    void (*encode)(void *user, int64_t job, dl_bytes *into);
    bool (*decode)(void *user, int64_t job, const void *data, size_t bytes);
    dl_progress_fn progress; /* may be NULL */
    void *progress_user;
    dl_cluster *cluster; /* NULL: only this process */
    /* On rank 0, or NULL: jobs in the journal are not run again; finished jobs are added if
     * dl_journal_is_kept, numbered from journal_first. The caller flushes and ends it. */
    dl_journal *journal;
    int64_t journal_first;
} dl_jobs;

/* Runs all jobs; all ranks call it with the same jobs. Returns the error of the first job that
 * fails; DL_ERR_SYSTEM if a thread cannot be started or a message is lost; and the errors of
 * dl_journal_flush. The other ranks return rank 0's error. */
dl_status dl_jobs_run(const dl_jobs *jobs, dl_error *err) DL_MUST_CHECK;

#endif
