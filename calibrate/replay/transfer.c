#include "calibrate/replay/transfer.h"

#include <gsl/gsl_fit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* The meetings of one name: their sizes and times. */
typedef struct points {
    double *bytes, *ns;
    size_t count;
} points;

static points take_points(const dl_meetings *meetings, const dl_replay_run *run, const char *name,
                          size_t without)
{
    points p = {.bytes = dl_calloc(meetings->count, sizeof *p.bytes, "sizes of collectives"),
                .ns = dl_calloc(meetings->count, sizeof *p.ns, "times of collectives")};
    for (size_t i = 0; i < meetings->count; i++) {
        const dl_meeting *m = &meetings->meetings[i];
        if (i == without || m->bytes <= 0 || strcmp(m->name, name) != 0) continue;
        const int64_t ns = run->rank_count > 1 ? m->end_ns - m->last_ns
                                               : run->graph.nodes[m->nodes[0]].duration_ns;
        p.bytes[p.count] = m->bytes;
        p.ns[p.count++] = ns > 0 ? (double)ns : 0;
    }
    return p;
}

static void fit_lower_line(const points *p, dl_transfer_line *line)
{
    line->ns_per_byte = INFINITY;
    for (size_t i = 0; i < p->count; i++)
        line->ns_per_byte = fmin(line->ns_per_byte, p->ns[i] / p->bytes[i]);
}

static double mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

/* Of the least-squares line; if one of its numbers is negative, of the best line without it. */
static void fit_line(const points *p, dl_transfer_line *line)
{
    bool same = true;
    for (size_t i = 1; i < p->count; i++)
        same = same && p->bytes[i] == p->bytes[0];
    double cov00, cov01, cov11, squares;
    if (same) {
        line->latency_ns = mean(p->ns, p->count);
    } else {
        gsl_fit_linear(p->bytes, 1, p->ns, 1, p->count, &line->latency_ns, &line->ns_per_byte,
                       &cov00, &cov01, &cov11, &squares);
    }
    if (line->ns_per_byte < 0) {
        line->ns_per_byte = 0;
        line->latency_ns = mean(p->ns, p->count);
    } else if (line->latency_ns < 0) {
        line->latency_ns = 0;
        gsl_fit_mul(p->bytes, 1, p->ns, 1, p->count, &line->ns_per_byte, &cov11, &squares);
    }
    double sum = 0;
    for (size_t i = 0; i < p->count; i++)
        sum += pow(p->ns[i] - line->latency_ns - line->ns_per_byte * p->bytes[i], 2);
    line->error_ns = sqrt(sum / (double)p->count);
}

static const dl_transfer_line *find_line(const dl_transfer *transfer, const char *name)
{
    for (size_t i = 0; i < transfer->count; i++) {
        if (strcmp(transfer->lines[i].name, name) == 0) return &transfer->lines[i];
    }
    return NULL;
}

void dl_transfer_fit(dl_transfer *transfer, const dl_meetings *meetings, const dl_replay_run *run,
                     size_t without)
{
    for (size_t i = 0; i < meetings->count; i++) {
        const char *name = meetings->meetings[i].name;
        if (find_line(transfer, name) != NULL) continue;
        points p = take_points(meetings, run, name, without);
        dl_transfer_line line = {.name = name, .meetings = p.count};
        if (p.count > 0) {
            if (run->rank_count > 1) {
                fit_line(&p, &line);
            } else {
                fit_lower_line(&p, &line);
            }
            transfer->lines = dl_realloc(transfer->lines, transfer->count + 1,
                                         sizeof *transfer->lines, "collectives");
            transfer->lines[transfer->count++] = line;
        }
        free(p.bytes);
        free(p.ns);
    }
}

double dl_transfer_ns(const dl_transfer *transfer, const dl_meeting *meeting)
{
    const dl_transfer_line *line = find_line(transfer, meeting->name);
    if (line == NULL || meeting->bytes <= 0) return (double)NAN;
    return line->latency_ns + line->ns_per_byte * meeting->bytes;
}

void dl_transfer_free(dl_transfer *transfer)
{
    free(transfer->lines);
    *transfer = (dl_transfer){0};
}
