#include "sim/target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"

static dl_status read_kind(dl_target_factor *factor, const char *text, dl_error *err)
{
    static const char *const by[] = {"interval ", "staleness "};
    static const double least[] = {1, 0};
    const char *names[DL_MODES + DL_LENGTH(by)] = {"interval", "staleness"};
    for (size_t b = 0; b < DL_LENGTH(by); b++) {
        if (strncmp(text, by[b], strlen(by[b])) != 0) continue;
        *factor = (dl_target_factor){.by = (dl_target_by)b};
        return dl_parse_double(text + strlen(by[b]), least[b], 1e12, &factor->at, err);
    }
    const int mode = dl_names_find(text, dl_mode_names, DL_MODES);
    if (mode >= 0) {
        *factor = (dl_target_factor){.by = DL_TARGET_MODE, .mode = dl_modes[mode]};
        return DL_OK;
    }
    char hint[300];
    memcpy(names + DL_LENGTH(by), dl_mode_names, DL_MODES * sizeof *names);
    dl_names_hint(hint, sizeof hint, text, names, DL_LENGTH(names));
    return dl_error_set(err, DL_ERR_NAME,
                        "'%s' is neither 'interval NUMBER', 'staleness NUMBER' nor a mode%s", text,
                        hint);
}

dl_status dl_target_read_factor(dl_target_factor *factor, const char *text, dl_error *err)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL)
        return dl_error_set(err, DL_ERR_PARSE, "'%s' has no factor, as interval 16:1.05", text);
    DL_AUTOFREE char *kind = dl_strndup_trimmed(text, (size_t)(colon - text));
    dl_status status = read_kind(factor, kind, err);
    if (status != DL_OK) return status;
    return dl_parse_double(colon + 1 + strspn(colon + 1, " "), DL_TARGET_FACTOR_MIN,
                           DL_TARGET_FACTOR_MAX, &factor->factor, err);
}

static bool same_factor(const dl_target_factor *a, const dl_target_factor *b)
{
    return a->by == b->by && a->mode == b->mode && a->at == b->at;
}

static dl_status take_factor(void *user, char *item, dl_error *err)
{
    dl_target *target = user;
    dl_target_factor factor = {0};
    const dl_status status = dl_target_read_factor(&factor, item, err);
    for (size_t i = 0; i < target->count && status == DL_OK; i++)
        if (same_factor(&target->factors[i], &factor))
            return dl_error_set(err, DL_ERR_RANGE, "'%s' is given twice", item);
    DL_APPEND(target->factors, target->count, "factors") = factor;
    return status;
}

dl_status dl_target_read(dl_target *target, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "target", "factor");
    return entry != NULL ? dl_ini_each(ini, entry, take_factor, target, err) : DL_OK;
}

void dl_target_free(dl_target *target)
{
    free(target->factors);
    *target = (dl_target){0};
}

/* Coordinate in which factors are interpolated. */
static double place(dl_target_by by, double at)
{
    return by == DL_TARGET_INTERVAL ? log(at) : at;
}

static double along(const dl_target *target, dl_target_by by, double at)
{
    dl_target_factor below = {.at = by == DL_TARGET_INTERVAL ? 1 : 0, .factor = 1};
    const dl_target_factor *above = NULL;
    for (size_t i = 0; i < target->count; i++) {
        const dl_target_factor *f = &target->factors[i];
        if (f->by != by) continue;
        if (f->at <= at && f->at >= below.at) below = *f;
        if (f->at > at && (above == NULL || f->at < above->at)) above = f;
    }
    if (at <= below.at) return below.factor;
    if (above == NULL) return (double)NAN;
    const double share =
        (place(by, at) - place(by, below.at)) / (place(by, above->at) - place(by, below.at));
    return below.factor + share * (above->factor - below.factor);
}

double dl_target_factor_of(const dl_target *target, const dl_mode *mode, double interval,
                           double staleness)
{
    for (size_t i = 0; i < target->count; i++)
        if (target->factors[i].by == DL_TARGET_MODE && target->factors[i].mode == mode)
            return target->factors[i].factor;
    return along(target, DL_TARGET_INTERVAL, interval) *
           along(target, DL_TARGET_STALENESS, isnan(staleness) ? 0 : staleness);
}
