/* Many jobs, known by their numbers, on the threads of this process and, where a launcher has
 * started several, of all ranks (common/cluster.h).
 *
 * Each thread takes the next job when it has ended one. Rank 0 hands jobs to the others in portions
 * of at most 50 ms for each of their threads, and fewer towards the end; a rank asks for the next
 * portion while it still has one. In rank 0 the calling thread answers them and computes nothing.
 *
 * A job leaves its result in a place of its own, so what comes out depends on neither the number of
 * threads nor that of ranks; rank 0 has all results, the others none that they can use. When a job
 * fails, those of higher numbers are not started, those of lower ones are done: the error is that
 * of the first job that fails, always the same one. */
#ifndef DL_COMMON_JOBS_H
#define DL_COMMON_JOBS_H

#include <stdint.h>

#include "common/bytes.h"
#include "common/cluster.h"
#include "common/journal.h"
#include "common/status.h"

/* Called now and then, by one thread at a time, on rank 0; before the first job with those that a
 * journal has. */
typedef void (*dl_progress_fn)(void *user, int64_t done, int64_t count);

typedef struct dl_jobs {
    int64_t count;
    int threads; /* >= 1, of this rank */
    void *user;
    /* Does a job; several at once, in several threads, with the caller's locale. */
    dl_status (*run)(void *user, int64_t job, dl_error *err);
    /* Appends the job's result, and puts it back where the job leaves it: false, and nothing, if
     * these bytes are no result of that job. NULL without ranks and journal. */
    void (*encode)(void *user, int64_t job, dl_bytes *into);
    bool (*decode)(void *user, int64_t job, const void *data, size_t bytes);
    dl_progress_fn progress; /* may be NULL */
    void *progress_user;
    dl_cluster *cluster; /* NULL: this process alone */
    /* Of rank 0: what it has is not done again, and jobs that are done are added once it is kept
     * (dl_journal_is_kept), job 0 as journal_first. The caller flushes and ends it. NULL: none. */
    dl_journal *journal;
    int64_t journal_first;
} dl_jobs;

/* Does all jobs; all ranks call it, with the same jobs. Fails as the first job that does; with
 * DL_ERR_SYSTEM where a thread cannot be started or a message does not arrive; with the errors of
 * dl_journal_flush. On the other ranks a failure says nothing of its own. */
dl_status dl_jobs_run(const dl_jobs *jobs, dl_error *err) DL_MUST_CHECK;

#endif
