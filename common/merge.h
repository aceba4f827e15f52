/* Rules by which the syncer of asynchronous local SGD (sync mode async_average) merges uploads:
 * when it merges, which uploads it merges, and which it drops. dlprof trains and dlsim simulates
 * with these rules.
 *
 * After each interval a learner uploads its parameter change, based on the version that it took
 * last. At most one upload per learner waits: a newer one supersedes it. An upload staler than the
 * bound is not merged, and dropped when the next version is published. The syncer looks at the
 * waiting uploads whenever one arrives or, with scan_s > 0, every scan_s seconds; once a quorum
 * waits, it waits for more until the grace time has passed or quorum_max uploads wait, then
 * merges. */
#ifndef DL_COMMON_MERGE_H
#define DL_COMMON_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

extern const char *const dl_merge_grace_names[]; /* "fixed", "adaptive", NULL */

typedef struct dl_merge_config {
    int quorum;     /* fewest uploads in a merge; at most as many as there are workers count */
    int quorum_max; /* most uploads in a merge; 0: workers */
    double grace_s; /* seconds to wait for more once there is a quorum */
    int adaptive;   /* index in dl_merge_grace_names; 1: wait only until a learner of the quorum is
                     * expected to upload again, its last interval after its upload was seen */
    double scan_s;  /* seconds between looks; 0: at each upload */
    double weight_power; /* weight of an upload that is s versions stale: (1 + s)^-weight_power */
    double wait_s;       /* longest wait of a learner for a new version after an upload */
} dl_merge_config;

/* Checks the ranges of the settings. DL_ERR_RANGE. */
dl_status dl_merge_check(const dl_merge_config *config, int workers, dl_error *err) DL_MUST_CHECK;

/* Returns the weight of an upload that is `staleness` versions stale. */
double dl_merge_weight(const dl_merge_config *config, int64_t staleness);

typedef struct dl_upload {
    bool lies; /* an upload waits to be merged */
    int64_t base, step, order, cycle_ns;
    int64_t seen_ns; /* when the syncer first saw it; -1: not yet */
} dl_upload;

typedef struct dl_merger {
    dl_merge_config config;
    int workers;
    int64_t bound;      /* largest staleness; -1: no bound */
    dl_upload *uploads; /* [workers] */
    int *chosen;        /* [workers] learners of the uploads that a function returns */
    int64_t version, order;
    int64_t grace_end_ns; /* end of the grace time; -1: there is no quorum */
} dl_merger;

void dl_merger_init(dl_merger *merger, const dl_merge_config *config, int64_t bound, int workers);
void dl_merger_free(dl_merger *merger); /* a zeroed merger is allowed */

/* Takes the worker's upload after its step, based on version `base`, in place of one that waits;
 * its interval took cycle_ns. */
void dl_merger_submit(dl_merger *merger, int worker, int64_t step, int64_t base, int64_t cycle_ns);

/* Looks at the uploads at now_ns, while no merge is under way: returns the number of uploads to
 * merge now, chosen[0...], the oldest ones, which then no longer wait. If 0, the next look is due
 * at *next_ns or, with scan_s 0, at the next upload if that is earlier; INT64_MAX: only at the next
 * upload. */
int dl_merger_look(dl_merger *merger, int64_t now_ns, int64_t *next_ns);

/* Returns as dl_merger_look the uploads to merge without waiting for more or for a quorum. */
int dl_merger_take(dl_merger *merger, int64_t now_ns);

/* Completes the merge: counts a new version, and drops the uploads that are now too stale. Returns
 * their number, those of chosen[0...]. */
int dl_merger_publish(dl_merger *merger);

#endif
