#include "common/merge.h"

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
    for (size_t i = 0; i < DL_LENGTH(numbers); i++) {
        if (numbers[i].value >= 0 && numbers[i].value <= numbers[i].most) continue;
        return dl_error_set(err, DL_ERR_RANGE, "%s %g; must be 0 to %g", numbers[i].name,
                            numbers[i].value, numbers[i].most);
    }
    return DL_OK;
}

double dl_merge_weight(const dl_merge_config *config, int64_t staleness)
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
        .grace_end_ns = NOT_YET,
    };
}

void dl_merger_free(dl_merger *merger)
{
    free(merger->uploads);
    free(merger->chosen);
    *merger = (dl_merger){0};
}

void dl_merger_submit(dl_merger *merger, int worker, int64_t step, int64_t base, int64_t cycle_ns)
{
    dl_upload *u = &merger->uploads[worker];
    *u = (dl_upload){.lies = true,
                     .base = base,
                     .step = step,
                     .order = merger->order++,
                     .cycle_ns = cycle_ns,
                     .seen_ns = NOT_YET};
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
        m->grace_end_ns = now_ns + dl_ns_ceil(dl_s_to_ns(m->config.grace_s));
    for (int i = 0; i < eligible && m->config.adaptive; i++) {
        const dl_upload *u = &m->uploads[m->chosen[i]];
        const int64_t again_ns = u->seen_ns + u->cycle_ns;
        if (again_ns < m->grace_end_ns) m->grace_end_ns = again_ns;
    }
}

/* Returns the limit, if it is given, or else the number of workers. */
static int limit_of(const dl_merger *m, int given)
{
    return given > 0 && given < m->workers ? given : m->workers;
}

/* Takes the oldest of the `eligible` uploads in `chosen`; returns their number. */
static int take(dl_merger *m, int eligible)
{
    const int most = limit_of(m, m->config.quorum_max), count = eligible < most ? eligible : most;
    m->grace_end_ns = NOT_YET;
    for (int i = 0; i < count; i++)
        m->uploads[m->chosen[i]].lies = false;
    return count;
}

int dl_merger_look(dl_merger *merger, int64_t now_ns, int64_t *next_ns)
{
    const dl_merge_config *config = &merger->config;
    const int eligible = list_eligible(merger, now_ns);
    *next_ns = config->scan_s > 0 ? now_ns + dl_ns_ceil(dl_s_to_ns(config->scan_s)) : INT64_MAX;
    if (eligible < limit_of(merger, config->quorum)) {
        merger->grace_end_ns = NOT_YET;
        return 0;
    }
    set_grace_end(merger, eligible, now_ns);
    if (eligible >= limit_of(merger, config->quorum_max) || merger->grace_end_ns <= now_ns)
        return take(merger, eligible);
    if (merger->grace_end_ns < *next_ns) *next_ns = merger->grace_end_ns;
    return 0;
}

int dl_merger_take(dl_merger *merger, int64_t now_ns)
{
    return take(merger, list_eligible(merger, now_ns));
}

int dl_merger_publish(dl_merger *merger)
{
    int dropped = 0;
    merger->version++;
    for (int w = 0; w < merger->workers; w++) {
        dl_upload *u = &merger->uploads[w];
        if (!u->lies || !is_too_stale(merger, u)) continue;
        u->lies = false;
        merger->chosen[dropped++] = w;
    }
    return dropped;
}
