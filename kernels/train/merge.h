/* Rules by which the syncer of asynchronous local SGD (sync mode async_average) merges uploads:
 * when it merges, which uploads it merges, and what happens to the others. dlsim's mode of the same
 * name has the same rules (`[syncer]`, docs/simulating.md). Threads, clocks and arithmetic are in
 * train_syncer.c.
 *
 * After each interval a learner uploads its parameter change, based on the version that it took
 * last. At most one upload per learner waits: a newer one supersedes it. An upload staler than the
 * bound when a version is published is lost. The syncer looks at the waiting uploads whenever one
 * arrives or, with scan_s > 0, every scan_s seconds; once a quorum waits, it waits for more until
 * the grace time has passed or quorum_max uploads wait, then merges. */
#ifndef DL_KERNELS_MERGE_H
#define DL_KERNELS_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

extern const char *const dl_merge_grace_names[]; /* "fixed", "adaptive", NULL */

typedef struct dl_merge_config {
    int quorum;          /* fewest uploads in a merge: 1..workers */
    int quorum_max;      /* most uploads in a merge: 0 (workers), or quorum..workers */
    double grace_s;      /* seconds to wait for more once there is a quorum */
    bool adaptive;       /* wait only until a learner of the quorum is expected to upload again */
    double scan_s;       /* seconds between looks; 0: at each upload */
    double weight_power; /* weight of an upload that is s versions stale: (1 + s)^-weight_power */
    double wait_s;       /* longest wait of a learner for a new version after an upload */
} dl_merge_config;

/* Checks the ranges of the settings. DL_ERR_RANGE. */
dl_status dl_merge_check(const dl_merge_config *config, int workers, dl_error *err) DL_MUST_CHECK;

typedef enum dl_merge_kind {
    DL_MERGE_UPLOAD,     /* the worker uploaded its change after step `step` */
    DL_MERGE_MERGE,      /* the worker's upload became part of version `version` */
    DL_MERGE_ADOPT,      /* the worker took version `version` */
    DL_MERGE_TOO_STALE,  /* the upload was lost: staler than the bound */
    DL_MERGE_SUPERSEDED, /* the upload was lost: the worker uploaded again */
    DL_MERGE_UNMERGED    /* the run ended before a merge of the upload */
} dl_merge_kind;

typedef struct dl_merge_event {
    dl_merge_kind kind;
    int worker;
    int64_t step;      /* step after which the upload was made; adopt: the worker's current step */
    int64_t version;   /* merge: version made; adopt: version taken */
    int64_t base;      /* upload, merge: version that the upload is based on */
    int64_t staleness; /* merge: version before the merge, minus base */
    double weight;     /* merge: weight of the upload */
} dl_merge_event;

/* uploaded = applied + too_stale + superseded + unmerged */
typedef struct dl_merge_counts {
    int64_t uploaded, applied, too_stale, superseded, unmerged;
    int64_t merges;
    double weight; /* sum of the weights of applied uploads */
} dl_merge_counts;

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
    int *chosen;        /* [workers] learners of the current merge, ascending */
    double *weights;    /* [workers] weights of their uploads */
    int64_t version, order;
    int64_t grace_end_ns;   /* end of the grace time; -1: there is no quorum */
    dl_merge_event *events; /* [event_count] in order of occurrence */
    size_t event_count;
    dl_merge_counts counts;
} dl_merger;

void dl_merger_init(dl_merger *merger, const dl_merge_config *config, int64_t bound, int workers);
void dl_merger_free(dl_merger *merger); /* a zeroed merger is allowed */

/* Records the worker's upload after its step, based on version `base`; its interval took
 * cycle_ns. */
void dl_merger_submit(dl_merger *merger, int worker, int64_t step, int64_t base, int64_t cycle_ns);

/* Records that the worker took the newest version. */
void dl_merger_adopt(dl_merger *merger, int worker, int64_t step);

/* Looks at the uploads at now_ns, while no merge is under way: returns the number of uploads to
 * merge now, chosen[0...], the oldest ones, which then no longer wait. If 0, the next look is due
 * at *next_ns or, with scan_s 0, at the next upload if that is earlier; INT64_MAX: only at the next
 * upload. */
int dl_merger_look(dl_merger *merger, int64_t now_ns, int64_t *next_ns);

/* Completes the merge: counts a new version, and drops uploads that are now too stale. */
void dl_merger_publish(dl_merger *merger);

/* Ends the run: uploads that still wait are not merged any more. */
void dl_merger_end(dl_merger *merger);

#endif
