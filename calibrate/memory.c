#include "calibrate/memory.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

static double distance(uint64_t bytes, int64_t parameter_bytes)
{
    return fabs(log2((double)bytes / (double)parameter_bytes));
}

/* Size with samples of several threads that is nearest to the parameters; 0: there is none. */
static uint64_t nearest_size(const dl_charge_line *line, int64_t parameter_bytes)
{
    uint64_t nearest = 0;
    for (size_t i = 0; i < line->count; i++) {
        const dl_charge_point *point = &line->points[i];
        if (point->threads < 2 || point->bytes == 0) continue;
        if (nearest == 0 ||
            distance(point->bytes, parameter_bytes) < distance(nearest, parameter_bytes)) {
            nearest = point->bytes;
        }
    }
    return nearest;
}

static const dl_charge_point *find_alone(const dl_charge_line *line, const dl_charge_point *many)
{
    for (size_t i = 0; i < line->count; i++) {
        const dl_charge_point *point = &line->points[i];
        if (point->threads == 1 && point->bytes == many->bytes && point->vectors == many->vectors &&
            point->phase == many->phase) {
            return point;
        }
    }
    return NULL;
}

/* Copies: each of the threads moves `bytes`. Averages: they share one of n vectors. */
static void add_point(dl_memory_fit *fit, const dl_charge_line *line, const dl_charge_point *many,
                      bool copies)
{
    const dl_charge_point *alone = find_alone(line, many);
    const double share = copies ? many->threads : 1;
    const double traffic_bytes =
        (double)many->bytes * (copies ? 2.0 * many->threads : many->vectors + 1.0);
    const double time_ns = many->time_ns.value;
    const double rate = traffic_bytes / dl_ns_to_s(time_ns);
    fit->points = dl_realloc(fit->points, fit->count + 1, sizeof *fit->points, "memory points");
    fit->points[fit->count++] = (dl_memory_point){
        .name = line->name,
        .phase = many->phase,
        .bytes = many->bytes,
        .vectors = many->vectors,
        .threads = many->threads,
        .bytes_per_s = {rate, rate * many->time_ns.error / time_ns, many->time_ns.count},
        .speedup = alone != NULL ? share * alone->time_ns.value / time_ns : NAN};
}

static void add_line(dl_memory_fit *fit, const dl_charge_line *line, int64_t parameter_bytes,
                     bool copies)
{
    const uint64_t bytes = nearest_size(line, parameter_bytes);
    for (size_t i = 0; i < line->count; i++) {
        const dl_charge_point *point = &line->points[i];
        if (point->threads < 2 || point->bytes != bytes || !(point->time_ns.value > 0)) continue;
        add_point(fit, line, point, copies);
    }
}

void dl_memory_fit_total(const dl_charges *charges, dl_memory_fit *fit, dl_costs *costs,
                         dl_notes *notes)
{
    const int64_t bytes = costs->parameter_bytes > 0 ? costs->parameter_bytes : 1;
    add_line(fit, &charges->lines[DL_CHARGE_COPY], bytes, true);
    add_line(fit, &charges->lines[DL_CHARGE_AVERAGE], bytes, false);
    const dl_memory_point *highest = NULL;
    for (size_t i = 0; i < fit->count; i++) {
        const dl_memory_point *point = &fit->points[i];
        if (highest == NULL || point->bytes_per_s.value > highest->bytes_per_s.value) {
            highest = point;
        }
    }
    if (highest == NULL) return;
    const bool limited = highest->speedup < DL_MEMORY_FREE_FRAC * highest->threads;
    const dl_estimate rate = highest->bytes_per_s;
    costs->memory_total_bytes_per_s = (dl_value){true, rate.value, rate.error, rate.count,
                                                 limited ? DL_ORIGIN_FITTED : DL_ORIGIN_ASSUMED};
    if (limited) return;
    dl_notes_add(notes,
                 "memory: %u threads moved %.2f times what one did, so its limit was not reached: "
                 "total_bytes_per_s is a lower bound",
                 highest->threads, highest->speedup);
}

void dl_memory_fit_free(dl_memory_fit *fit)
{
    free(fit->points);
    *fit = (dl_memory_fit){0};
}
