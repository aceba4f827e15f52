/* Workers of a scenario that are slow or absent, and failures of the whole job ([noise] slow,
 * [failures]). */
#include <math.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/scenario/scenario_internal.h"

typedef struct reader {
    dl_scenario *scenario;
    const dl_sweep_list *workers;
} reader;

/* Parses a worker's number from text[bytes]; some point must have that worker. */
static dl_status parse_worker(const reader *r, const char *text, size_t bytes, int *worker,
                              dl_error *err)
{
    int64_t given = 0;
    DL_AUTOFREE char *number = dl_strndup(text, bytes);
    const dl_status status = dl_parse_int(number, 0, DL_WORKERS_MAX - 1, &given, err);
    *worker = (int)given;
    if (status != DL_OK) return status;
    for (size_t i = 0; i < r->workers->count; i++)
        if (given < r->workers->values[i]) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "no point has a worker %d (numbered from 0)", *worker);
}

/* Parses "1:2", a worker and its factor. */
static dl_status take_slow(void *user, char *item, dl_error *err)
{
    const reader *r = user;
    dl_scenario *s = r->scenario;
    dl_slow_worker slow = {0};
    const char *colon = strchr(item, ':');
    if (colon == NULL)
        return dl_error_set(err, DL_ERR_PARSE, "expected WORKER:FACTOR, as 1:2, not '%s'", item);
    dl_status status = parse_worker(r, item, (size_t)(colon - item), &slow.worker, err);
    if (status == DL_OK) status = dl_parse_double(colon + 1, 1e-6, 1e6, &slow.factor, err);
    for (size_t i = 0; i < s->slow_count && status == DL_OK; i++)
        if (s->slow[i].worker == slow.worker)
            return dl_error_set(err, DL_ERR_RANGE, "worker %d is given twice", slow.worker);
    DL_APPEND(s->slow, s->slow_count, "slow workers") = slow;
    return status;
}

/* Parses "1:40-60": a worker, and the start and end of its absence in s; without an end the
 * worker does not return. A worker's absences must be in chronological order. */
static dl_status take_absence(void *user, char *item, dl_error *err)
{
    const reader *r = user;
    dl_absences *all = &r->scenario->absences;
    dl_absence away = {.to_s = (double)INFINITY};
    const char *colon = strchr(item, ':'), *dash = colon != NULL ? strchr(colon, '-') : NULL;
    if (dash == NULL)
        return dl_error_set(err, DL_ERR_PARSE,
                            "expected WORKER:FROM-TO in seconds, as 1:40-60, not '%s'", item);
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "failures", "away");
    dl_status status = parse_worker(r, item, (size_t)(colon - item), &away.worker, err);
    DL_AUTOFREE char *from = dl_strndup(colon + 1, (size_t)(dash - colon - 1));
    if (status == DL_OK) status = dl_parse_double(from, key->low, key->high, &away.from_s, err);
    if (status == DL_OK && dash[1] != '\0')
        status = dl_parse_double(dash + 1, key->low, key->high, &away.to_s, err);
    if (status != DL_OK) return status;
    if (!(away.to_s > away.from_s))
        return dl_error_set(err, DL_ERR_RANGE, "absence %s ends before it starts", item);
    if (isinf(away.to_s) && away.from_s == 0)
        return dl_error_set(err, DL_ERR_RANGE, "worker %d is never there", away.worker);
    for (size_t i = 0; i < all->count; i++) {
        if (all->listed[i].worker != away.worker || all->listed[i].to_s < away.from_s) continue;
        return dl_error_set(err, DL_ERR_RANGE,
                            "worker %d is away before it is back: give its absences in their order",
                            away.worker);
    }
    DL_APPEND(all->listed, all->count, "absences") = away;
    return DL_OK;
}

/* Checks the keys of random absences, and that the scenario allows them. */
static dl_status check_drawn(const dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const dl_absences *absences = &scenario->absences;
    const dl_ini_entry *mtbf = dl_ini_find(ini, "failures", "worker_mtbf_s");
    const dl_ini_entry *away = dl_ini_find(ini, "failures", "worker_away_s");
    const dl_ini_entry *together = dl_ini_find(ini, "failures", "together");
    if (mtbf != NULL && away == NULL) {
        return dl_ini_error(ini, mtbf, DL_ERR_DATA, err,
                            "worker_away_s, for which a worker that fails is away, is missing");
    }
    if (mtbf == NULL && (away != NULL || together != NULL)) {
        return dl_ini_error(ini, away != NULL ? away : together, DL_ERR_DATA, err,
                            "this needs worker_mtbf_s");
    }
    if (absences->together == DL_TOGETHER_SITE && scenario->gpu == NULL) {
        return dl_ini_error(ini, together, DL_ERR_DATA, err,
                            "sites are those of a machine file: this needs [machine] file");
    }
    return DL_OK;
}

static dl_status take_time(void *user, char *item, dl_error *err)
{
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "failures", "at_s");
    dl_failures *failures = user;
    double at_s = 0;
    const dl_status status = dl_parse_double(item, key->low, key->high, &at_s, err);
    if (status != DL_OK) return status;
    if (failures->at_count > 0 && at_s <= failures->at_s[failures->at_count - 1])
        return dl_error_set(err, DL_ERR_RANGE, "the times must ascend");
    DL_APPEND(failures->at_s, failures->at_count, "times of failures") = at_s;
    return DL_OK;
}

static dl_status read_times(dl_failures *failures, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "failures", "at_s");
    if (entry == NULL) return DL_OK;
    if (failures->mtbf_s > 0 || failures->node_mtbf_s > 0) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "mtbf_s is given too: give only one");
    }
    return dl_ini_each(ini, entry, take_time, failures, err);
}

/* Rejects restart_s, checkpoint_s and job_steps without failures of the job; checkpoint_steps
 * suffices for the last two. */
static dl_status check_job(const dl_failures *failures, const dl_ini *ini, dl_error *err)
{
    static const char *const keys[] = {"restart_s", "checkpoint_s", "job_steps"};
    const bool fails = failures->mtbf_s > 0 || failures->node_mtbf_s > 0 || failures->at_count > 0;
    for (size_t i = 0; i < DL_LENGTH(keys) && !fails; i++) {
        const dl_ini_entry *entry = dl_ini_find(ini, "failures", keys[i]);
        if (entry == NULL || (i > 0 && failures->checkpoint_steps > 0)) continue;
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "this needs mtbf_s, node_mtbf_s or at_s%s",
                            i > 0 ? ", or checkpoint_steps" : "");
    }
    return DL_OK;
}

dl_status dl_scenario_read_failures(dl_scenario *scenario, const dl_ini *ini,
                                    const dl_sweep_list *workers, dl_error *err)
{
    reader r = {scenario, workers};
    const dl_ini_entry *slow = dl_ini_find(ini, "noise", "slow");
    const dl_ini_entry *away = dl_ini_find(ini, "failures", "away");
    if (away != NULL && scenario->absences.mtbf_s > 0)
        return dl_ini_error(ini, away, DL_ERR_DATA, err,
                            "worker_mtbf_s is given too: give only one");
    dl_status status = slow != NULL ? dl_ini_each(ini, slow, take_slow, &r, err) : DL_OK;
    if (status == DL_OK && away != NULL) status = dl_ini_each(ini, away, take_absence, &r, err);
    if (status == DL_OK) status = check_drawn(scenario, ini, err);
    if (status == DL_OK) status = read_times(&scenario->failures, ini, err);
    return status == DL_OK ? check_job(&scenario->failures, ini, err) : status;
}

void dl_scenario_slow(const dl_scenario *scenario, int workers, double *slow)
{
    for (int w = 0; w < workers; w++)
        slow[w] = 1;
    for (size_t i = 0; i < scenario->slow_count; i++) {
        if (scenario->slow[i].worker < workers) {
            slow[scenario->slow[i].worker] = scenario->slow[i].factor;
        }
    }
}
