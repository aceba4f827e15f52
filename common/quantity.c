#include "common/quantity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"

#define UNIT_MAX 9

/* The units of a dimension, the base unit first, and how many base units each is. */
static const struct {
    const char *names[UNIT_MAX];
    double factors[UNIT_MAX];
} units[] = {
    [DL_DIMENSION_PURE] = {{NULL}, {0}},
    [DL_DIMENSION_BYTES] = {{"B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB"},
                            {1, 1e3, 1e6, 1e9, 1e12, 0x1p10, 0x1p20, 0x1p30}},
    [DL_DIMENSION_BYTES_PER_S] = {{"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "MiB/s", "GiB/s", "Mb/s",
                                   "Gb/s"},
                                  {1, 1e3, 1e6, 1e9, 1e12, 0x1p20, 0x1p30, 1e6 / 8, 1e9 / 8}},
    [DL_DIMENSION_FLOP_PER_S] = {{"flop/s", "Gflop/s", "Tflop/s"}, {1, 1e9, 1e12}},
    [DL_DIMENSION_NS] = {{"ns", "us", "ms", "s"}, {1, 1e3, 1e6, 1e9}},
};

static const char *const evidence_names[] = {"assumed", "catalogue", "measured"};
#define EVIDENCE_COUNT (sizeof evidence_names / sizeof *evidence_names)

const char *dl_evidence_name(dl_evidence evidence)
{
    return evidence_names[evidence];
}

static dl_status parse_unit(const char *unit, dl_dimension dimension, double *factor, dl_error *err)
{
    if (unit[0] == '\0') {
        *factor = 1;
        return DL_OK;
    }
    const char *const *names = units[dimension].names;
    size_t count = 0;
    while (count < UNIT_MAX && names[count] != NULL)
        count++;
    int found = dl_names_find(unit, names, count);
    if (found >= 0) {
        *factor = units[dimension].factors[found];
        return DL_OK;
    }
    if (count == 0) return dl_error_set(err, DL_ERR_NAME, "unexpected '%s': no unit here", unit);
    char hint[128];
    dl_names_hint(hint, sizeof hint, unit, names, count);
    return dl_error_set(err, DL_ERR_NAME, "unknown unit '%s'%s", unit, hint);
}

static dl_status parse_evidence(const char *text, dl_evidence *evidence, dl_error *err)
{
    int found = dl_names_find(text, evidence_names, EVIDENCE_COUNT);
    if (found >= 0) {
        *evidence = (dl_evidence)found;
        return DL_OK;
    }
    char hint[128];
    dl_names_hint(hint, sizeof hint, text, evidence_names, EVIDENCE_COUNT);
    return dl_error_set(err, DL_ERR_NAME, "unknown origin '%s'%s", text, hint);
}

/* A copy of text[bytes] without the blanks around it. */
static char *trimmed(const char *text, size_t bytes)
{
    while (bytes > 0 && (*text == ' ' || *text == '\t'))
        text++, bytes--;
    while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t'))
        bytes--;
    return dl_strndup(text, bytes);
}

/* An 'e' belongs to the number only where digits follow it, so that no unit is cut. */
static size_t number_length(const char *text)
{
    size_t length = strspn(text, "+-.0123456789");
    if (length > 0 && (text[length] == 'e' || text[length] == 'E')) {
        size_t sign = text[length + 1] == '+' || text[length + 1] == '-';
        size_t digits = strspn(text + length + 1 + sign, "0123456789");
        if (digits > 0) length += 1 + sign + digits;
    }
    return length;
}

static dl_status parse_amount(const char *amount, dl_dimension dimension, double *value,
                              dl_error *err)
{
    size_t length = number_length(amount);
    char *number = dl_strndup(amount, length);
    char *unit = trimmed(amount + length, strlen(amount + length));
    double parsed = 0, factor = 0;
    dl_status status = length == 0 ? dl_error_set(err, DL_ERR_PARSE, "'%s' is no number", amount)
                                   : dl_parse_double(number, 0, INFINITY, &parsed, err);
    if (status == DL_OK) status = parse_unit(unit, dimension, &factor, err);
    if (status == DL_OK && !isfinite(parsed * factor)) {
        status = dl_error_set(err, DL_ERR_RANGE, "%s is too large", amount);
    }
    if (status == DL_OK) *value = parsed * factor;
    free(unit);
    free(number);
    return status;
}

dl_status dl_quantity_parse(const char *text, dl_dimension dimension, dl_quantity *quantity,
                            dl_error *err)
{
    size_t length = strcspn(text, ",");
    char *amount = trimmed(text, length);
    char *origin =
        text[length] == ',' ? trimmed(text + length + 1, strlen(text + length + 1)) : NULL;
    dl_quantity parsed = {.known = true};
    dl_status status = parse_amount(amount, dimension, &parsed.value, err);
    if (status == DL_OK && origin != NULL) status = parse_evidence(origin, &parsed.evidence, err);
    free(origin);
    free(amount);
    if (status == DL_OK) *quantity = parsed;
    return status;
}
