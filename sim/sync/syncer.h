/* The syncer of asynchronous local SGD (mode async_average, sim/sync/async_average.c), which merges
 * learners' uploads and publishes new versions of the parameters. A learner is a worker. The syncer
 * is a process on a separate machine; on a CPU machine it is a thread beside the workers, unless
 * the time of its merges is given.
 *
 * Scanning. Uploads are stored where all can read them (a shared file system, the syncer's memory);
 * the syncer looks for them every `scan_s`, or learns of each immediately. One upload per learner
 * is stored: a newer one supersedes one that is not merged yet.
 *
 * Merging. An upload is eligible while it is based on a version at most `bound` older than the
 * newest one. As soon as the syncer sees `quorum` eligible uploads, the grace time starts; it
 * merges when it sees those of all learners (or `quorum_max`), or at the end of the grace time.
 * With adaptive grace, the grace time ends earlier if a learner with an eligible upload is expected
 * to upload again: after the duration of the interval before that upload, counted from when the
 * upload was first seen. Reading, merging and publishing take merge_s; uploads too stale for the
 * new version are then dropped.
 *
 * Weights. An upload that is s versions stale when it is merged has the weight (1 +
 * s)^-weight_power: 0 gives equal weights, 0.5 is FedAsync's polynomial (Xie, Koyejo & Gupta 2019),
 * 1 divides by 1 + s. A merge adds the mean over its uploads of weight times the learner's change:
 * weights are not normalised to a sum of 1, so that a merge of one stale upload is a small step
 * too. They do not affect time.
 *
 * Membership. A learner that fails or leaves loses its local steps since the last upload, and an
 * upload in transit; a stored upload stays. A learner that joins or returns fetches the newest
 * version and starts an interval. The syncer does not know which learners are away, and then waits
 * for the whole grace time.
 *
 * End. The run ends when the fastest learner has done its steps; or every learner does its steps,
 * and a grace time later the syncer merges the eligible uploads.
 *
 * The protocol is that of decoupled DiLoCo over a file system (github.com/UnbearableFate/
 * fsb_decoupled_diloco, docs/02-architecture.md and 03-runtime-flow.md), with its names: quorum,
 * grace, superseded, too stale, rebase. */
#ifndef DL_SIM_SYNCER_H
#define DL_SIM_SYNCER_H

#include "common/merge.h"
#include "sim/team.h"

/* Longest wait of a predicting learner for the version that it has predicted: the protocol's
 * default. */
#define DL_PREDICT_WAIT_S 60.0

/* When learners take a new version. All of them look for one after each upload. */
typedef enum dl_adopt {
    DL_ADOPT_NEXT,    /* only after an upload; the version replaces their parameters */
    DL_ADOPT_REPLACE, /* after each local step except an interval's last, which is uploaded first;
                       * local steps since the upload are lost */
    DL_ADOPT_REBASE,  /* after an upload or, if there was no new version then, the first one during
                       * the interval; the changes since the upload are added to it */
    DL_ADOPT_PREDICT  /* rebases onto a predicted version; the next upload waits for the real one */
} dl_adopt;

/* "next", "replace", "rebase", "predict", NULL. */
extern const char *const dl_adopt_names[];

/* "first", "each", NULL: the run ends with the first learner, or with every learner. */
extern const char *const dl_end_names[];

typedef struct dl_syncer_config {
    dl_merge_config merge;
    double merge_s; /* time of a merge, including reading and publishing; 0: from the costs */
    int adopt;      /* a dl_adopt */
    int each_ends;  /* index in dl_end_names */
} dl_syncer_config;

/* Numbers of uploads by outcome, after each learner's warm-up; `uploaded` is the sum of the
 * others. */
typedef struct dl_upload_counts {
    int64_t uploaded, applied, too_stale, superseded, unmerged;
    double weight; /* sum of the weights of applied uploads */
} dl_upload_counts;

/* Events in order, for schedules: `version` is the base of a step or an upload, or the version that
 * a learner takes. A reported step may be repeated if its learner fails during the next action. */
typedef enum dl_syncer_event {
    DL_SYNCER_STEP, /* a local step has been computed */
    DL_SYNCER_UPLOAD,
    DL_SYNCER_MERGE, /* the upload is part of the current merge */
    DL_SYNCER_REPLACE,
    DL_SYNCER_REBASE
} dl_syncer_event;

/* Team companion that implements the syncer. */
extern const dl_team_companion dl_syncer_companion;

/* For platforms: a merge has ended. */
void dl_syncer_merged(dl_team *team);

/* dl_syncer_counts: uploads by outcome. dl_syncer_merges: number of merges after the warm-up;
 * *merge_ns: their ends, ascending, borrowed; *since_ns: end of the previous merge, or 0. */
dl_upload_counts dl_syncer_counts(const dl_team *team);
int64_t dl_syncer_merges(const dl_team *team, const int64_t **merge_ns, int64_t *since_ns);

#endif
