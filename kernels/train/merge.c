#include "kernels/train/merge.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

#define NOT_YET (-1)

/* Largest setting in seconds: 31 years. */
#define SECONDS_MAX 1e9

const char *const dl_merge_grace_names[] = {"fixed", "adaptive", NULL};

dl_status dl_merge_check(const dl_merge_config *config, int workers, dl_error *err)
{
    const struct {
        const char *name;
        double value, most;
    } numbers[] = {{"grace time", config->grace_s, SECONDS_MAX},
                   {"scan time", config->scan_s, SECONDS_MAX},
                   {"wait time", config->wait_s, SECONDS_MAX},
                   {"weight power", config->weight_power, 100}};
    if (config->quorum < 1 || config->quorum > workers) {
        return dl_error_set(err, DL_ERR_RANGE, "quorum %d; must be 1 to %d, the workers",
                            config->quorum, workers);
    }
    if (config->quorum_max != 0 &&
        (config->quorum_max < config->quorum || config->quorum_max > workers)) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "at most %d uploads per merge; must be %d, the quorum, to %d",
                            config->quorum_max, config->quorum, workers);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value >= 0 && numbers[i].value <= numbers[i].most) continue;
        return dl_error_set(err, DL_ERR_RANGE, "%s %g; must be 0 to %g", numbers[i].name,
                            numbers[i].value, numbers[i].most);
    }
    return DL_OK;
}

static double weight_of(const dl_merge_config *config, int64_t staleness)
{
    return pow(1 + (double)staleness, -config->weight_power);
}

void dl_merger_init(dl_merger *merger, const dl_merge_config *config, int64_t bound, int workers)
{
    *merger = (dl_merger){
        .config = *config,
        .workers = workers,
        .bound = bound,
        .uploads = dl_calloc((size_t)workers, sizeof *merger->uploads, "uploads"),
        .chosen = dl_calloc((size_t)workers, sizeof *merger->chosen, "merge"),
        .weights = dl_calloc((size_t)workers, sizeof *merger->weights, "merge"),
        .grace_end_ns = NOT_YET,
    };
}

void dl_merger_free(dl_merger *merger)
{
    free(merger->uploads);
    free(merger->chosen);
    free(merger->weights);
    free(merger->events);
    *merger = (dl_merger){0};
}

static void note(dl_merger *m, dl_merge_event event)
{
    DL_APPEND(m->events, m->event_count, "events of uploads") = event;
}

static void lose(dl_merger *m, int worker, dl_merge_kind kind, int64_t *count)
{
    dl_upload *u = &m->uploads[worker];
    u->lies = false;
    (*count)++;
    note(m, (dl_merge_event){.kind = kind, .worker = worker, .step = u->step});
}

void dl_merger_submit(dl_merger *merger, int worker, int64_t step, int64_t base, int64_t cycle_ns)
{
    dl_upload *u = &merger->uploads[worker];
    if (u->lies) lose(merger, worker, DL_MERGE_SUPERSEDED, &merger->counts.superseded);
    *u = (dl_upload){.lies = true,
                     .base = base,
                     .step = step,
                     .order = merger->order++,
                     .cycle_ns = cycle_ns,
                     .seen_ns = NOT_YET};
    merger->counts.uploaded++;
    note(merger,
         (dl_merge_event){.kind = DL_MERGE_UPLOAD, .worker = worker, .step = step, .base = base});
}

void dl_merger_adopt(dl_merger *merger, int worker, int64_t step)
{
    note(merger,
         (dl_merge_event){
             .kind = DL_MERGE_ADOPT, .worker = worker, .step = step, .version = merger->version});
}

static bool is_too_stale(const dl_merger *m, const dl_upload *u)
{
    return m->bound >= 0 && m->version - u->base > m->bound;
}

/* Lists in `chosen` the workers whose upload waits and is not too stale, the earliest upload first,
 * and marks these uploads as seen; returns their number. */
static int list_eligible(dl_merger *m, int64_t now_ns)
{
    int count = 0;
    for (int w = 0; w < m->workers; w++) {
        dl_upload *u = &m->uploads[w];
        if (!u->lies || is_too_stale(m, u)) continue;
        if (u->seen_ns == NOT_YET) u->seen_ns = now_ns;
        int at = count++;
        for (; at > 0 && m->uploads[m->chosen[at - 1]].order > u->order; at--)
            m->chosen[at] = m->chosen[at - 1];
        m->chosen[at] = w;
    }
    return count;
}

static void set_grace_end(dl_merger *m, int eligible, int64_t now_ns)
{
    if (m->grace_end_ns == NOT_YET)
        m->grace_end_ns = now_ns + (int64_t)dl_s_to_ns(m->config.grace_s);
    for (int i = 0; i < eligible && m->config.adaptive; i++) {
        const dl_upload *u = &m->uploads[m->chosen[i]];
        const int64_t again_ns = u->seen_ns + u->cycle_ns;
        if (again_ns < m->grace_end_ns) m->grace_end_ns = again_ns;
    }
}

/* Sorts by worker, so that the sum does not depend on the order of arrival. */
static void sort_chosen(dl_merger *m, int count)
{
    for (int i = 1; i < count; i++) {
        const int worker = m->chosen[i];
        int at = i;
        for (; at > 0 && m->chosen[at - 1] > worker; at--)
            m->chosen[at] = m->chosen[at - 1];
        m->chosen[at] = worker;
    }
}

static int take(dl_merger *m, int count)
{
    m->grace_end_ns = NOT_YET;
    m->counts.merges++;
    sort_chosen(m, count);
    for (int i = 0; i < count; i++) {
        dl_upload *u = &m->uploads[m->chosen[i]];
        const int64_t staleness = m->version - u->base;
        const double weight = weight_of(&m->config, staleness);
        u->lies = false;
        m->counts.applied++;
        m->counts.weight += weight;
        m->weights[i] = weight;
        note(m, (dl_merge_event){.kind = DL_MERGE_MERGE,
                                 .worker = m->chosen[i],
                                 .step = u->step,
                                 .version = m->version + 1,
                                 .base = u->base,
                                 .staleness = staleness,
                                 .weight = weight});
    }
    return count;
}

int dl_merger_look(dl_merger *merger, int64_t now_ns, int64_t *next_ns)
{
    const dl_merge_config *config = &merger->config;
    const int most = config->quorum_max > 0 ? config->quorum_max : merger->workers;
    const int eligible = list_eligible(merger, now_ns);
    *next_ns = config->scan_s > 0 ? now_ns + (int64_t)dl_s_to_ns(config->scan_s) : INT64_MAX;
    if (eligible < config->quorum) {
        merger->grace_end_ns = NOT_YET;
        return 0;
    }
    set_grace_end(merger, eligible, now_ns);
    if (eligible >= most) return take(merger, most);
    if (merger->grace_end_ns <= now_ns) return take(merger, eligible);
    if (merger->grace_end_ns < *next_ns) *next_ns = merger->grace_end_ns;
    return 0;
}

void dl_merger_publish(dl_merger *merger)
{
    merger->version++;
    for (int w = 0; w < merger->workers; w++) {
        const dl_upload *u = &merger->uploads[w];
        if (u->lies && is_too_stale(merger, u))
            lose(merger, w, DL_MERGE_TOO_STALE, &merger->counts.too_stale);
    }
}

void dl_merger_end(dl_merger *merger)
{
    for (int w = 0; w < merger->workers; w++)
        if (merger->uploads[w].lies) lose(merger, w, DL_MERGE_UNMERGED, &merger->counts.unmerged);
}
