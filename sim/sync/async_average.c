/* Asynchronous local SGD: learners and a syncer (sim/sync/syncer.h). */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/platform/platform.h"
#include "sim/sync/mode.h"
#include "sim/sync/syncer.h"

#define NOT_YET (-1)

const char *const dl_adopt_names[] = {"next", "replace", "rebase", "predict", NULL};
const char *const dl_end_names[] = {"first", "each", NULL};

typedef struct learner {
    int64_t useful;   /* measured local steps in the interval before the last upload */
    bool is_measured; /* that upload is after the learner's warm-up */

    int64_t steps;          /* local steps since the last upload */
    int64_t replaced;       /* number of these that were lost when a new version replaced the
                             * parameters */
    int64_t cycle_start_ns; /* start of the current interval */
    int64_t push_ns;        /* end of the current interval */
    bool anchored;          /* will rebase onto the next version */
    int64_t deadline_ns;    /* end of the learner's wait for a version */
    int timer;              /* event of that deadline, or NOT_YET */

    int64_t first_step; /* first step of the current interval */
} learner;

typedef struct dl_syncer {
    dl_syncer_config config;
    dl_merger merger;
    learner *learners; /* [workers] */
    bool merging;
    bool closing; /* all learners have done their steps */
    int look;     /* event of the next scan, or NOT_YET */
    dl_upload_counts counts;
    int64_t *merge_ns; /* [merges] ends of the merges */
    int64_t merges;
} dl_syncer;

static void init(dl_team *team)
{
    const dl_syncer_config *config = team->config.syncer;
    dl_syncer *s = dl_calloc(1, sizeof *s, "syncer");
    const size_t workers = (size_t)team->config.workers;
    const double bound = team->config.option[DL_SYNC_BOUND];
    int64_t uploads = 0;
    for (size_t w = 0; w < workers; w++)
        uploads += team->config.steps / team->workers[w].interval + 1;
    *s = (dl_syncer){
        .config = *config,
        .learners = dl_calloc(workers, sizeof *s->learners, "learners"),
        .merge_ns = dl_calloc((size_t)uploads, sizeof *s->merge_ns, "merges"),
        .look = NOT_YET,
    };
    dl_merger_init(&s->merger, &config->merge, isfinite(bound) ? (int64_t)bound : -1, (int)workers);
    for (size_t w = 0; w < workers; w++)
        s->learners[w].timer = NOT_YET;
    team->syncer = s;
}

static void free_all(dl_team *team)
{
    DL_AUTOFREE dl_syncer *syncer = team->syncer;
    free(syncer->learners);
    dl_merger_free(&syncer->merger);
    free(syncer->merge_ns);
}

dl_upload_counts dl_syncer_counts(const dl_team *team)
{
    return team->syncer->counts;
}

int64_t dl_syncer_merges(const dl_team *team, const int64_t **merge_ns, int64_t *since_ns)
{
    const dl_syncer *s = team->syncer;
    int64_t first = 0;
    while (first < s->merges && s->merge_ns[first] <= team->warm_ns)
        first++;
    *merge_ns = s->merge_ns + first;
    *since_ns = first > 0 ? s->merge_ns[first - 1] : 0;
    return s->merges - first;
}

static void notify(const dl_team *team, dl_syncer_event event, int worker, int64_t version)
{
    const dl_team_observer *observer = team->config.observer;
    if (observer == NULL || observer->syncer == NULL) return;
    observer->syncer(observer->user, event, worker, team->workers[worker].steps_done, version,
                     team->engine.now_ns);
}

/* --- merging -------------------------------------------------------------------------------- */

static void look(dl_team *team);

static void on_look(void *user, int unused DL_UNUSED)
{
    dl_team *team = user;
    team->syncer->look = NOT_YET;
    look(team);
}

static void look_after(dl_team *team, int64_t delay_ns)
{
    dl_syncer *s = team->syncer;
    if (s->look != NOT_YET) dl_engine_cancel(&team->engine, s->look);
    s->look = dl_engine_after(&team->engine, delay_ns, on_look, team, 0);
}

/* Records the staleness of an upload for its step: in the log if the step has ended, otherwise in
 * the worker, which logs it when the current step ends. */
static void note_staleness(dl_team *team, int worker, int64_t step, int staleness)
{
    dl_worker *w = &team->workers[worker];
    if (step == w->steps_done) {
        w->staleness = staleness;
    } else {
        dl_team_staleness_log(team, worker)[step] = staleness;
    }
}

static void lose(dl_team *team, int worker, int64_t *count)
{
    const learner *l = &team->syncer->learners[worker];
    if (!l->is_measured) return;
    team->workers[worker].dropped += l->useful;
    (*count)++;
}

void dl_syncer_merged(dl_team *team)
{
    dl_syncer *s = team->syncer;
    s->merging = false;
    s->merge_ns[s->merges++] = team->engine.now_ns;
    dl_team_update(team);
    const int dropped = dl_merger_publish(&s->merger);
    for (int i = 0; i < dropped; i++)
        lose(team, s->merger.chosen[i], &s->counts.too_stale);
    dl_team_wake(team);
    look(team);
}

static void on_merged(void *user, int unused DL_UNUSED)
{
    dl_syncer_merged(user);
}

/* Time of a merge on a separate machine, in ns: as given, or that of an update with as many
 * gradients, which reads the uploads and writes the new version. */
static double merge_time_ns(const dl_team *team, int uploads)
{
    const dl_workload *w = team->config.workload;
    const double given_s = team->syncer->config.merge_s;
    if (given_s > 0) return dl_s_to_ns(given_s);
    return w->update.latency_ns + w->parameter_bytes * (uploads * w->update.read_ns_per_byte +
                                                        w->update.write_ns_per_byte);
}

static void merge(dl_team *team, int count)
{
    dl_syncer *s = team->syncer;
    for (int i = 0; i < count; i++) {
        const int worker = s->merger.chosen[i];
        const dl_upload *u = &s->merger.uploads[worker];
        const int64_t staleness = s->merger.version - u->base;
        note_staleness(team, worker, u->step, (int)staleness);
        notify(team, DL_SYNCER_MERGE, worker, u->base);
        if (!s->learners[worker].is_measured) continue;
        s->counts.applied++;
        s->counts.weight += dl_merge_weight(&s->config.merge, staleness);
    }
    s->merging = true;
    if (team->config.platform->merge != NULL && !(s->config.merge_s > 0)) {
        team->config.platform->merge(team, count);
    } else {
        dl_engine_after(&team->engine, dl_ns_ceil(merge_time_ns(team, count)), on_merged, team, 0);
    }
}

static void look(dl_team *team)
{
    dl_syncer *s = team->syncer;
    const int64_t now_ns = team->engine.now_ns;
    int64_t next_ns;
    if (s->merging) return;
    if (s->closing) {
        /* After the last grace time, uploads are merged even without a quorum. */
        const int last = dl_merger_take(&s->merger, now_ns);
        if (last > 0) merge(team, last);
    }
    if (team->stopping) return;
    const int count = dl_merger_look(&s->merger, now_ns, &next_ns);
    if (count > 0) {
        merge(team, count);
    } else if (next_ns < INT64_MAX) {
        look_after(team, next_ns - now_ns);
    }
}

static void cancel(dl_team *team, int *event)
{
    if (*event != NOT_YET) dl_engine_cancel(&team->engine, *event);
    *event = NOT_YET;
}

/* Cancels the next scan, which would only prolong the run; with each_ends, schedules the last
 * one. */
static void close_all(dl_team *team)
{
    dl_syncer *s = team->syncer;
    cancel(team, &s->look);
    if (!team->config.each_ends) return;
    s->closing = true;
    if (!s->merging) look_after(team, dl_ns_ceil(dl_s_to_ns(s->config.merge.grace_s)));
}

static void count_unmerged(dl_team *team)
{
    dl_syncer *s = team->syncer;
    for (int w = 0; w < team->config.workers; w++) {
        const learner *l = &s->learners[w];
        if (!s->merger.uploads[w].lies || !l->is_measured) continue;
        s->counts.unmerged++;
        team->workers[w].contributions = l->useful;
    }
}

const dl_team_companion dl_syncer_companion = {
    .events = 2,
    .events_a_worker = 2,
    .init = init,
    .start = look,
    .close = close_all,
    .ended = count_unmerged,
    .free = free_all,
};

/* --- learners ------------------------------------------------------------------------------- */

enum { COMPUTED = 1, FETCHED, PREDICTED, PUSHED, WAITED, ADOPTED, RETURNED, REJOINED };

/* Fetches the newest version, then continues at `stage`. */
static void fetch(dl_team *team, int worker, int stage)
{
    learner *l = &team->syncer->learners[worker];
    notify(team, l->anchored ? DL_SYNCER_REBASE : DL_SYNCER_REPLACE, worker, team->version);
    team->workers[worker].local_updates = l->anchored ? l->steps : 0;
    l->anchored = false;
    team->workers[worker].stage = stage;
    dl_team_read(team, worker);
    dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PULL});
}

static void on_deadline(void *user, int worker)
{
    dl_team *team = user;
    team->syncer->learners[worker].timer = NOT_YET;
    dl_team_wake(team);
}

static bool has_waited(const dl_team *team, int worker)
{
    if (dl_absence_is_due(team, worker)) return true;
    return dl_team_is_outdated(team, worker) ||
           team->engine.now_ns >= team->syncer->learners[worker].deadline_ns;
}

static void wait_for_version(dl_team *team, int worker, int stage, double wait_s)
{
    learner *l = &team->syncer->learners[worker];
    const int64_t wait_ns = dl_ns_ceil(dl_s_to_ns(wait_s));
    l->deadline_ns = team->engine.now_ns + wait_ns;
    l->timer = dl_engine_after(&team->engine, wait_ns, on_deadline, team, worker);
    team->workers[worker].stage = stage;
    dl_team_wait(team, worker, has_waited);
}

/* Ends the learner's wait; returns whether there is a newer version. */
static bool end_wait(dl_team *team, int worker)
{
    learner *l = &team->syncer->learners[worker];
    cancel(team, &l->timer);
    return dl_team_is_outdated(team, worker);
}

static void push(dl_team *team, int worker)
{
    team->workers[worker].stage = PUSHED;
    team->syncer->learners[worker].push_ns = team->engine.now_ns;
    dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PUSH, .as_upload = true});
}

/* Uploads after the interval's last step; otherwise ends the step. */
static void push_or_end(dl_team *team, int worker)
{
    dl_worker *w = &team->workers[worker];
    learner *l = &team->syncer->learners[worker];
    if (l->steps < w->interval) {
        dl_team_end_step(team, worker);
    } else if (team->syncer->config.adopt == DL_ADOPT_PREDICT && l->anchored) {
        wait_for_version(team, worker, PREDICTED, DL_PREDICT_WAIT_S);
    } else {
        push(team, worker);
    }
}

/* Number of the last `count` steps, including the current one, that are after the learner's
 * warm-up. */
static int64_t measured(const dl_team *team, int worker, int64_t count)
{
    const dl_worker *w = &team->workers[worker];
    const int64_t most = w->steps_done + 1 - w->warm_up_steps;
    return count < most ? count : most;
}

/* Counts the steps since the upload, or since the last replacement, as lost. */
static void replace(dl_team *team, int worker)
{
    learner *l = &team->syncer->learners[worker];
    team->workers[worker].dropped += measured(team, worker, l->steps - l->replaced);
    l->replaced = l->steps;
}

static void after_step(dl_team *team, int worker)
{
    learner *l = &team->syncer->learners[worker];
    notify(team, DL_SYNCER_STEP, worker, team->workers[worker].read_version);
    l->steps++;
    /* Replacing the copy now would make the next upload empty. */
    const bool replaces =
        team->syncer->config.adopt == DL_ADOPT_REPLACE && l->steps < team->workers[worker].interval;
    const bool looks = l->anchored || replaces;
    team->workers[worker].local_updates++;
    if (looks && dl_team_is_outdated(team, worker)) {
        if (!l->anchored) replace(team, worker);
        fetch(team, worker, FETCHED);
    } else {
        push_or_end(team, worker);
    }
}

static void submit(dl_team *team, int worker)
{
    dl_syncer *s = team->syncer;
    learner *l = &s->learners[worker];
    const dl_worker *w = &team->workers[worker];
    if (s->merger.uploads[worker].lies) lose(team, worker, &s->counts.superseded);
    dl_merger_submit(&s->merger, worker, w->steps_done, w->read_version,
                     l->push_ns - l->cycle_start_ns);
    l->useful = measured(team, worker, l->steps - l->replaced);
    l->is_measured = team->config.warmup == 0 || w->warm_up_steps > 0;
    s->counts.uploaded += l->is_measured;
    l->first_step = w->steps_done + 1;
    l->steps = l->replaced = 0;
    l->anchored = false;
    notify(team, DL_SYNCER_UPLOAD, worker, w->read_version);
    if (!(s->config.merge.scan_s > 0)) look(team);
}

static void end_cycle(dl_team *team, int worker)
{
    team->syncer->learners[worker].cycle_start_ns = team->engine.now_ns;
    dl_team_end_step(team, worker);
}

/* Continues after an upload if there is no newer version. */
static void go_on(dl_team *team, int worker)
{
    const int adopt = team->syncer->config.adopt;
    team->syncer->learners[worker].anchored = adopt == DL_ADOPT_REBASE || adopt == DL_ADOPT_PREDICT;
    end_cycle(team, worker);
}

static void submitted(dl_team *team, int worker)
{
    submit(team, worker);
    if (dl_team_is_outdated(team, worker)) {
        fetch(team, worker, ADOPTED);
    } else if (team->syncer->config.merge.wait_s > 0) {
        wait_for_version(team, worker, WAITED, team->syncer->config.merge.wait_s);
    } else {
        go_on(team, worker);
    }
}

/* --- membership ----------------------------------------------------------------------------- */

/* Makes the learner leave, at the end of its current action; it loses the whole interval. Its
 * current step is repeated after its return. */
static void leave(dl_team *team, int worker)
{
    learner *l = &team->syncer->learners[worker];
    dl_worker *w = &team->workers[worker];
    /* Replaced steps have already been counted as lost. If the current step is one of them,
     * measured() returns -1 here, which uncounts it, as it is repeated. */
    w->dropped += measured(team, worker, w->steps_done - l->first_step - l->replaced);
    l->first_step = w->steps_done;
    w->local_updates = l->steps = l->replaced = 0;
    l->anchored = false;
    cancel(team, &l->timer);
    w->stage = RETURNED;
    dl_absence_begin(team, worker);
}

static void advance_async_average(dl_team *team, int worker)
{
    const int stage = team->workers[worker].stage;
    const bool has_uploaded = stage == WAITED || stage == ADOPTED;
    if (dl_absence_is_due(team, worker) && !has_uploaded) {
        leave(team, worker);
        return;
    }
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    case COMPUTED: after_step(team, worker); break;
    case FETCHED: push_or_end(team, worker); break;
    case PREDICTED:
        if (end_wait(team, worker)) {
            fetch(team, worker, FETCHED);
        } else {
            push(team, worker);
        }
        break;
    case PUSHED: submitted(team, worker); break;
    case WAITED:
        if (end_wait(team, worker)) {
            fetch(team, worker, ADOPTED);
        } else {
            go_on(team, worker);
        }
        break;
    case RETURNED: fetch(team, worker, REJOINED); break;
    case REJOINED:
        team->workers[worker].stage = COMPUTED;
        team->syncer->learners[worker].cycle_start_ns = team->engine.now_ns;
        dl_team_compute(team, worker, true);
        break;
    default: end_cycle(team, worker); break;
    }
}

const dl_mode dl_mode_async_average = {
    .name = "async_average",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_INTERVAL | 1u << DL_SYNC_BY_SPEED | 1u << DL_SYNC_WHERE |
               1u << DL_SYNC_BOUND | 1u << DL_SYNC_SYNCER | 1u << DL_SYNC_AWAY,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .exchange = DL_EXCHANGES_PARAMETERS,
    .through = DL_THROUGH_SERVER,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_SOME,
    .advance = advance_async_average,
};
