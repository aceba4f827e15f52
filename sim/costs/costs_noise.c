#include <gsl/gsl_sort_float.h>
#include <gsl/gsl_statistics_float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/costs/costs_fields.h"

#define SECTION "noise"

static dl_status section_number(const dl_ini *ini, const dl_ini_entry *entry, const char *text,
                                int64_t high, int64_t *number, dl_error *err)
{
    dl_error inner = {0};
    dl_status status = dl_parse_int(text, 1, high, number, &inner);
    if (status == DL_OK) return DL_OK;
    return dl_ini_error(ini, entry, status, err,
                        "a section of noise is called [noise], [noise BATCH] or [noise BATCH "
                        "copies COUNT]: %s",
                        inner.text);
}

/* Batch (0 = any) and copies in the name of the section. */
static dl_status section_kind(const dl_ini *ini, const dl_ini_entry *entry, dl_noise_set *kind,
                              dl_error *err)
{
    static const char word[] = " copies ";
    int64_t copies = 1;
    dl_status status = DL_OK;
    *kind = (dl_noise_set){.copies = 1};
    if (strcmp(entry->section, SECTION) == 0) return DL_OK;
    char *name = dl_strdup(entry->section + strlen(SECTION " "));
    char *behind = strstr(name, word);
    if (behind != NULL) {
        status = section_number(ini, entry, behind + strlen(word), DL_SHARING_MAX, &copies, err);
        *behind = '\0';
    }
    if (status == DL_OK) status = section_number(ini, entry, name, INT32_MAX, &kind->batch, err);
    free(name);
    kind->copies = (size_t)copies;
    return status;
}

typedef struct key_text {
    char text[80];
} key_text;

static key_text make_key(const dl_noise_set *set, size_t series, int64_t line)
{
    key_text key;
    snprintf(key.text, sizeof key.text, "factors_%zu_%zu_%lld", series / set->copies + 1,
             series % set->copies + 1, (long long)line);
    return key;
}

static dl_status append_factors(dl_noise_series *series, const dl_ini *ini,
                                const dl_ini_entry *entry, dl_error *err)
{
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    series->factors =
        dl_realloc(series->factors, series->count + count, sizeof *series->factors, "noise");
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        dl_error inner = {0};
        double factor = 0;
        status = dl_parse_double(items[i], 1e-6, 1e6, &factor, &inner);
        if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
        series->factors[series->count++] = (float)factor;
    }
    dl_ini_free_list(items, count);
    return status;
}

static dl_noise_set *find_set(const dl_costs *costs, const dl_noise_set *kind)
{
    for (size_t i = 0; i < costs->noise_count; i++) {
        dl_noise_set *set = &costs->noise[i];
        if (set->batch == kind->batch && set->copies == kind->copies) return set;
    }
    return NULL;
}

static size_t series_count(const dl_noise_set *set)
{
    return set->run_count * set->copies;
}

/* The keys come in order, as their numbers say: the next line of the last series, or the first one
 * of the next series; a run's series are made together, empty ones yet to come. */
static dl_status take_line(dl_noise_set *set, const dl_ini *ini, const dl_ini_entry *entry,
                           dl_noise_reading *at, dl_error *err)
{
    key_text next = make_key(set, at->series, at->line + 1);
    if (at->line > 0 && strcmp(entry->key, next.text) == 0) {
        at->line++;
        return append_factors(&set->series[at->series], ini, entry, err);
    }
    const size_t first = at->line > 0 ? at->series + 1 : at->series;
    key_text other = make_key(set, first, 1);
    if (strcmp(entry->key, other.text) != 0) {
        return dl_ini_error(ini, entry, DL_ERR_NAME, err, "expected the key %s%s%s",
                            at->line > 0 ? next.text : "", at->line > 0 ? " or " : "", other.text);
    }
    if (first == series_count(set)) {
        set->series = dl_realloc(set->series, series_count(set) + set->copies, sizeof *set->series,
                                 "noise series");
        for (size_t c = 0; c < set->copies; c++)
            set->series[series_count(set) + c] = (dl_noise_series){0};
        set->run_count++;
    }
    *at = (dl_noise_reading){first, 1};
    return append_factors(&set->series[first], ini, entry, err);
}

dl_status dl_costs_read_noise(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                              dl_noise_reading *at, dl_error *err)
{
    dl_noise_set kind;
    dl_status status = section_kind(ini, entry, &kind, err);
    if (status != DL_OK) return status;
    dl_noise_set *set = find_set(costs, &kind);
    if (set == NULL) {
        costs->noise =
            dl_realloc(costs->noise, costs->noise_count + 1, sizeof *costs->noise, "noise sets");
        set = &costs->noise[costs->noise_count++];
        *set = kind;
        *at = (dl_noise_reading){0};
    } else if (set != &costs->noise[costs->noise_count - 1]) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "the section comes twice");
    }
    return take_line(set, ini, entry, at, err);
}

dl_status dl_costs_read_exchange_run(dl_costs *costs, const dl_ini *ini, const dl_ini_entry *entry,
                                     dl_error *err)
{
    int64_t number;
    const int64_t next = (int64_t)costs->exchange_run_count + 1;
    dl_status status = dl_costs_numbered_key(ini, entry, "run_", next, next, &number, err);
    dl_noise_series factors = {0};
    if (status == DL_OK) status = append_factors(&factors, ini, entry, err);
    if (status == DL_OK && factors.count != 3) {
        status = dl_ini_error(ini, entry, DL_ERR_DATA, err,
                              "expected three factors: of copies, averages, updates");
    }
    if (status == DL_OK) {
        costs->exchange_runs = dl_realloc(costs->exchange_runs, (size_t)next,
                                          sizeof *costs->exchange_runs, "exchange runs");
        costs->exchange_runs[costs->exchange_run_count++] =
            (dl_exchange_run){factors.factors[0], factors.factors[1], factors.factors[2]};
    }
    free(factors.factors);
    return status;
}

dl_status dl_costs_finish_noise(dl_costs *costs, const dl_ini *ini, dl_error *err)
{
    for (size_t i = 0; i < costs->noise_count; i++) {
        dl_noise_set *set = &costs->noise[i];
        if (set->run_count > 0 && set->series[series_count(set) - 1].count > 0) {
            for (size_t s = 0; s < series_count(set); s++)
                dl_noise_series_finish(&set->series[s]);
            continue;
        }
        return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0,
                               "[noise %lld copies %zu]: the last run lacks a copy",
                               (long long)set->batch, set->copies);
    }
    return DL_OK;
}

void dl_noise_series_finish(dl_noise_series *series)
{
    float *sorted = dl_calloc(series->count, sizeof *sorted, "noise");
    memcpy(sorted, series->factors, series->count * sizeof *sorted);
    gsl_sort_float(sorted, 1, series->count);
    series->middle = (float)gsl_stats_float_median_from_sorted_data(sorted, 1, series->count);
    free(sorted);
}

void dl_noise_set_free(dl_noise_set *set)
{
    for (size_t i = 0; i < series_count(set); i++)
        free(set->series[i].factors);
    free(set->series);
    *set = (dl_noise_set){0};
}

/* How far a set is from what is asked for: by copies first. */
static double distance(const dl_noise_set *set, double batch, size_t at_once)
{
    const double far = 1e6; /* beyond any ratio of batch sizes, and any is farther than that */
    double copies = set->copies <= at_once ? (double)(at_once - set->copies)
                                           : (double)at_once + (double)set->copies;
    double ratio = set->batch > 0 ? fabs(log((double)set->batch / batch)) : far / 2;
    return copies * far + ratio;
}

const dl_noise_set *dl_costs_noise(const dl_costs *costs, double batch, size_t at_once)
{
    const dl_noise_set *best = NULL;
    for (size_t i = 0; i < costs->noise_count; i++) {
        const dl_noise_set *set = &costs->noise[i];
        if (best == NULL || distance(set, batch, at_once) < distance(best, batch, at_once)) {
            best = set;
        }
    }
    return best;
}
