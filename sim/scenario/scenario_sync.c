/* [sync]: modes and their options. */
#include "sim/scenario/scenario_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/names.h"
#include "common/units.h"

static dl_status read_mode(const char *text, const dl_key *key, double *value, dl_error *err)
{
    (void)key;
    *value = dl_names_find(text, dl_mode_names, DL_MODES);
    if (*value >= 0) return DL_OK;
    char hint[160];
    dl_names_hint(hint, sizeof hint, text, dl_mode_names, DL_MODES);
    return dl_error_set(err, DL_ERR_NAME, "unknown mode '%s'%s", text, hint);
}

static dl_status read_option(const char *text, const dl_key *key, double *value, dl_error *err)
{
    const dl_sync_option_spec *spec = &dl_sync_options[dl_key_option(key)];
    if (!spec->whole) return dl_parse_double(text, spec->low, spec->high, value, err);
    int64_t number = 0;
    dl_status status = dl_parse_int(text, (int64_t)spec->low, (int64_t)spec->high, &number, err);
    if (status == DL_OK) *value = (double)number;
    return status;
}

/* "interval, average_state" in text[bytes]; "no options" for none. */
static void list_options(char *text, size_t bytes, unsigned options)
{
    size_t used = 0;
    snprintf(text, bytes, "no options");
    for (int o = 0; o < DL_SYNC_OPTIONS; o++) {
        if (!(options & 1u << o) || used >= bytes) continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                                 dl_option_key(o)->name);
    }
}

/* An option that no mode of the scenario takes is a mistake. */
static dl_status check_options(const dl_ini *ini, const dl_sweep_list *modes, dl_error *err)
{
    unsigned taken = 0;
    for (size_t m = 0; m < modes->count; m++)
        taken |= dl_modes[(int)modes->values[m]]->options;
    for (int o = 0; o < DL_SYNC_OPTIONS; o++) {
        const dl_ini_entry *entry = dl_ini_find(ini, "sync", dl_option_key(o)->name);
        if (entry == NULL || taken & 1u << o) continue;
        char list[200];
        list_options(list, sizeof list, taken);
        return dl_ini_error(ini, entry, DL_ERR_NAME, err, "mode %s takes %s",
                            modes->entry != NULL ? modes->entry->value : "none", list);
    }
    return DL_OK;
}

static dl_status check_required(const dl_ini *ini, const dl_sweep_lists *lists, dl_error *err)
{
    for (size_t m = 0; m < lists->mode.count; m++) {
        const dl_mode *mode = dl_modes[(int)lists->mode.values[m]];
        for (int o = 0; o < DL_SYNC_SWEPT; o++) {
            if (!(mode->required & 1u << o) || lists->option[o].entry != NULL) continue;
            return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0,
                                   "[sync] %s is missing: mode %s needs it",
                                   dl_sync_options[o].name, mode->name);
        }
    }
    return DL_OK;
}

dl_status dl_scenario_read_sync(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                                dl_error *err)
{
    static const double none = 0;
    const dl_key *mode = dl_keys_find(&dl_scenario_keys, "sync", "mode");
    dl_status status = dl_sweep_list_read(&lists->mode, ini, mode, read_mode, &none, err);
    if (status != DL_OK) return status;
    for (int o = 0; o < DL_SYNC_SWEPT && status == DL_OK; o++) {
        status = dl_sweep_list_read(&lists->option[o], ini, dl_option_key(o), read_option,
                                    &dl_sync_options[o].fallback, err);
    }
    if (status == DL_OK) status = check_options(ini, &lists->mode, err);
    if (status == DL_OK) status = dl_scenario_read_where(scenario, ini, &lists->mode, err);
    return status == DL_OK ? check_required(ini, lists, err) : status;
}

dl_status dl_scenario_add_options(dl_scenario *scenario, const dl_ini *ini,
                                  const dl_sweep_lists *lists, dl_point *point, dl_error *err)
{
    size_t combinations = 1;
    for (int o = 0; o < DL_SYNC_SWEPT; o++) {
        if (point->mode->options & 1u << o) combinations *= lists->option[o].count;
    }
    dl_status status = DL_OK;
    for (size_t c = 0; c < combinations && status == DL_OK; c++) {
        size_t rest = c; /* the last option changes fastest */
        for (int o = DL_SYNC_SWEPT - 1; o >= 0; o--) {
            const dl_sweep_list *list = &lists->option[o];
            bool taken = point->mode->options & 1u << o;
            point->option[o] =
                taken ? list->values[rest % list->count] : dl_sync_options[o].fallback;
            if (taken) rest /= list->count;
        }
        status = dl_scenario_add_point(scenario, ini, lists, point, err);
    }
    return status;
}

bool dl_point_equal(const dl_point *a, const dl_point *b)
{
    if (a->cores != b->cores || a->workers != b->workers || a->batch != b->batch ||
        a->gpus != b->gpus || a->mode != b->mode) {
        return false;
    }
    for (int o = 0; o < DL_SYNC_SWEPT; o++) {
        if (!(a->option[o] == b->option[o] || (isnan(a->option[o]) && isnan(b->option[o])))) {
            return false;
        }
    }
    return true;
}

const char *dl_point_options(char *text, size_t bytes, const dl_point *point)
{
    size_t used = 0;
    text[0] = '\0';
    for (int o = 0; o < DL_SYNC_SWEPT && used < bytes; o++) {
        if (!dl_point_shows(point, o)) continue;
        char number[DL_DOUBLE_TEXT_BYTES];
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s %s", used > 0 ? ", " : "",
                             dl_sync_options[o].name, dl_format_double(number, point->option[o]));
    }
    return text;
}

const char *dl_point_text(char *text, size_t bytes, const dl_point *point)
{
    char options[DL_POINT_TEXT_BYTES];
    dl_point_options(options, sizeof options, point);
    char cores[32] = "";
    if (point->cores != DL_CORES_GPU) snprintf(cores, sizeof cores, "cores %d, ", point->cores);
    snprintf(text, bytes, "%sworkers %d, batch %lld, %s%s%s", cores, point->workers,
             (long long)point->batch, point->mode->name, options[0] != '\0' ? ", " : "", options);
    return text;
}

bool dl_point_shows(const dl_point *point, int option)
{
    if (!(point->mode->options & 1u << option)) return false;
    double value = point->option[option];
    if ((DL_SYNC_ANY | 1u << DL_SYNC_LAG) & 1u << option)
        return value != dl_sync_options[option].fallback;
    return isfinite(value);
}
