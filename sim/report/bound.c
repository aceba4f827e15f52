/* The bottleneck of a row: the part of a step, or the link, resource or stage, that limits it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/report/columns.h"

/* A link or resource that is busy for less than this fraction of the workers' exchange and wait
 * time is not a bottleneck: messages then wait for one another. */
#define BOUND_FRAC 0.5

/* A host thread that launches for at least this fraction of the time, and longer than any GPU or
 * link works, limits the step, whatever the largest part of the workers' time is. */
#define HOST_BOUND_FRAC 0.95

static bool is_bound_by_host(const dl_usage *usage)
{
    return usage->busiest_frac >= HOST_BOUND_FRAC &&
           strncmp(usage->busiest, DL_HOST_THREAD, strlen(DL_HOST_THREAD)) == 0;
}

static const char *bound_by_stage(const dl_split_result *split, char text[DL_BOUND_TEXT_BYTES])
{
    int most = 0;
    for (int s = 1; s < split->stages; s++)
        if (split->busy_frac[s] > split->busy_frac[most]) most = s;
    if (split->stages == 1) return "compute";
    snprintf(text, DL_BOUND_TEXT_BYTES, "stage %d", most);
    return text;
}

/* The bottleneck of workers that wait for copies while no link is busy. The time of collectives
 * inside layers is precomputed on idle links and not included in the links' load. */
static const char *bound_by_no_link(const dl_point *point)
{
    if (point->tensor > 1) return "tp collectives";
    if (point->experts > 1) return "ep all-to-all";
    return point->context > 1 ? "cp collectives" : "latency";
}

const char *dl_result_bound(const dl_result *r, char text[DL_BOUND_TEXT_BYTES])
{
    const dl_usage *usage = &r->row->mean.usage;
    const double *frac = r->row->mean.part_frac;
    const double least = BOUND_FRAC * (frac[DL_PART_COMMUNICATION] + frac[DL_PART_AVERAGING] +
                                       frac[DL_PART_WAITING]);
    const dl_split_result *split = dl_point_is_split(&r->row->point) ? r->row->mean.split : NULL;
    const bool by_timed = usage->timed_frac > usage->link_frac;
    const char *link = by_timed                                    ? DL_MEASURED_COLLECTIVES
                       : strstr(usage->link, " of shard ") == NULL ? usage->link
                                                                   : "server";
    const bool by_link = link[0] != '\0' && fmax(usage->timed_frac, usage->link_frac) >= least;
    const dl_part part = dl_dominant_part(r->row);
    snprintf(text, DL_BOUND_TEXT_BYTES, "%s", dl_part_names[part]);
    if (is_bound_by_host(usage)) return "host";
    switch (part) {
    case DL_PART_DISPATCH: return "host";
    case DL_PART_INPUT: return "input";
    case DL_PART_COMMUNICATION: return by_link ? link : bound_by_no_link(&r->row->point);
    case DL_PART_AVERAGING: return "averaging";
    case DL_PART_WAITING:
        if (split != NULL && split->stages > 1) return bound_by_stage(split, text);
        if (by_link) return link;
        return usage->busiest_frac >= least ? usage->busiest : "slowest worker";
    case DL_PART_COMPUTE:
        if (split != NULL) return bound_by_stage(split, text);
        break;
    case DL_PART_COUNT: break;
    }
    return text;
}
