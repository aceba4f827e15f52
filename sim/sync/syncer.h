/* The syncer of asynchronous local SGD (mode async_average, sim/sync/async_average.c), which merges
 * what learners upload and publishes new versions of the parameters. A learner is a worker. The
 * syncer is a process on a machine of its own; on a CPU box it is a thread beside the workers,
 * unless a time is given for its merges.
 *
 * Looking. Uploads lie where all can read them (a shared file system, the syncer's memory); the
 * syncer looks for them every `scan_s`, or hears of each at once. One upload per learner lies
 * there: a newer one replaces, and supersedes, one that is not merged yet.
 *
 * Merging. An upload is eligible as long as it is based on a version at most `bound` older than the
 * newest one. As soon as the syncer sees `quorum` eligible uploads, the grace time starts; it
 * merges when it sees those of all learners (or `quorum_max`), or at the end of the grace time.
 * With adaptive grace it ends when one of those learners is expected to upload again: its upload
 * was first seen then, and its interval takes as long as the last one did. Reading, merging and
 * publishing take merge_s; what is too stale for the new version is then dropped.
 *
 * Weights. An upload that is s versions stale when it is merged has the weight (1 +
 * s)^-weight_power: 0 gives all the same, 0.5 is FedAsync's polynomial (Xie, Koyejo & Gupta 2019),
 * 1 divides by 1 + s. A merge adds the mean over its uploads of weight times what the learner has
 * learned: weights are not made to add up to 1, so that a merge of one stale upload is a small step
 * too. They do not matter for time.
 *
 * Who comes and goes. A learner that fails or leaves loses its local steps since the last upload,
 * and an upload that is on its way; one that lies there stays. One that comes (back) fetches the
 * newest version and starts an interval. The syncer does not know who is away: it waits for the
 * whole grace time then.
 *
 * The end. The run ends when the fastest learner has done its steps; or every learner does its
 * steps, and a grace time later the syncer merges what is then eligible.
 *
 * The protocol is that of decoupled DiLoCo over a file system (github.com/UnbearableFate/
 * fsb_decoupled_diloco, docs/02-architecture.md and 03-runtime-flow.md), with its names: quorum,
 * grace, superseded, too stale, rebase. */
#ifndef DL_SIM_SYNCER_H
#define DL_SIM_SYNCER_H

#include "sim/team.h"

/* A learner that predicts waits this long for the version that it has predicted: that protocol's
 * default. */
#define DL_PREDICT_WAIT_S 60.0

/* When learners take a new version. All look for one after each upload. */
typedef enum dl_adopt {
    DL_ADOPT_NEXT,    /* only then; it replaces their parameters */
    DL_ADOPT_REPLACE, /* after each local step but an interval's last, which is uploaded first; local
                         steps since the upload are lost */
    DL_ADOPT_REBASE,  /* if there was none: the first one that appears during the interval; what
                         they have learned since the upload is added to it */
    DL_ADOPT_PREDICT  /* as rebase (on a prediction of the new version), and they do not upload
                         before it has appeared */
} dl_adopt;

/* "next", "replace", "rebase", "predict"; ends with NULL. */
extern const char *const dl_adopt_names[];

/* "first", "each": whose end ends the run; ends with NULL. */
extern const char *const dl_end_names[];

/* "fixed", "adaptive"; ends with NULL. */
extern const char *const dl_grace_names[];

typedef struct dl_syncer_config {
    int quorum;          /* 1 .. workers; more: as many as workers */
    int quorum_max;      /* uploads of a merge at most; 0: no limit */
    double scan_s;       /* period of looking; 0: at once */
    double grace_s;      /* grace time at most */
    int adaptive;        /* of dl_grace_names */
    double weight_power; /* >= 0 */
    double merge_s;      /* of a merge, with reading and publishing; 0: of the costs */
    int adopt;           /* dl_adopt */
    int each_ends;       /* of dl_end_names */
    double wait_s;       /* that a learner waits for a new version after an upload */
} dl_syncer_config;

/* What became of the uploads after each learner's warm-up; the first is the sum of the others. */
typedef struct dl_upload_counts {
    int64_t uploaded, applied, too_stale, superseded, unmerged;
    double weight; /* of those applied, added up */
} dl_upload_counts;

/* What happens in order, for schedules: `version` is the one that a step or an upload is based on,
 * or that a learner takes. A step that is notified may be done again, if its learner fails during
 * what follows it. */
typedef enum dl_syncer_event {
    DL_SYNCER_STEP, /* local, has been computed */
    DL_SYNCER_UPLOAD,
    DL_SYNCER_MERGE, /* the upload is in the merge at hand */
    DL_SYNCER_REPLACE,
    DL_SYNCER_REBASE
} dl_syncer_event;

/* Of an upload that is that many versions stale. */
double dl_syncer_weight(const dl_syncer_config *config, int64_t staleness);

/* The companion of teams with a syncer. */
extern const dl_team_companion dl_syncer_companion;

/* The platform has done the merge that it was asked for. */
void dl_syncer_merged(dl_team *team);

/* What became of the uploads; *merge_ns[the result]: times of the ends of merges after the warm-up,
 * ascending, borrowed; *since_ns: end of the merge before them, or 0. */
dl_upload_counts dl_syncer_counts(const dl_team *team);
int64_t dl_syncer_merges(const dl_team *team, const int64_t **merge_ns, int64_t *since_ns);

#endif
