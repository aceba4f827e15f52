#include "common/quantity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"

#define UNIT_MAX 12

/* Units of a dimension, the base unit first, and their size in base units. */
static const struct {
    const char *names[UNIT_MAX];
    double factors[UNIT_MAX];
} units[] = {
    [DL_DIMENSION_PURE] = {{NULL}, {0}},
    [DL_DIMENSION_BYTES] = {{"B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB"},
                            {1, 1e3, 1e6, 1e9, 1e12, 0x1p10, 0x1p20, 0x1p30}},
    [DL_DIMENSION_BYTES_PER_S] = {{"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "MiB/s", "GiB/s", "b/s",
                                   "kb/s", "Mb/s", "Gb/s", "Tb/s"},
                                  {1, 1e3, 1e6, 1e9, 1e12, 0x1p20, 0x1p30, 1.0 / 8, 1e3 / 8,
                                   1e6 / 8, 1e9 / 8, 1e12 / 8}},
    [DL_DIMENSION_FLOP_PER_S] = {{"flop/s", "Gflop/s", "Tflop/s"}, {1, 1e9, 1e12}},
    [DL_DIMENSION_NS] = {{"ns", "us", "ms", "s"}, {1, 1e3, 1e6, 1e9}},
    [DL_DIMENSION_S] = {{"s", "ms", "min", "h", "d"}, {1, 1e-3, 60, 3600, 86400}},
};

static const char *const origin_names[] = {"assumed", "catalogue", "fitted", "measured"};
#define ORIGIN_COUNT DL_LENGTH(origin_names)

const char *dl_origin_name(dl_origin origin)
{
    return origin_names[origin];
}

/* Writes the unit to text[bytes] as `units` has it: "Gbps", "Gbit" and "Gbit/s" as "Gb/s". */
static void write_usual(char *text, size_t bytes, const char *unit)
{
    static const char *const ends[][2] = {
        {"bps", "b/s"}, {"bit/s", "b/s"}, {"bit", "b/s"}, {"Bps", "B/s"}};
    snprintf(text, bytes, "%s", unit);
    for (size_t i = 0; i < DL_LENGTH(ends); i++) {
        if (!dl_ends_with(unit, ends[i][0])) continue;
        const int kept = (int)(strlen(unit) - strlen(ends[i][0]));
        snprintf(text, bytes, "%.*s%s", kept, unit, ends[i][1]);
    }
}

/* Sets the error for an unknown unit: names the nearest one, or both if it can be in bits or in
 * bytes. */
static dl_status refuse_unit(const char *unit, const char *usual, const char *const *names,
                             size_t count, dl_error *err)
{
    char hint[128];
    const char *found[2] = {NULL, NULL};
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(usual, names[i]) == 0) found[found[0] != NULL] = names[i];
    dl_names_hint(hint, sizeof hint, usual, names, count);
    if (found[1] != NULL)
        snprintf(hint, sizeof hint, "; did you mean '%s' (bits) or '%s' (bytes)?", found[1],
                 found[0]);
    return dl_error_set(err, DL_ERR_NAME, "unknown unit '%s'%s", unit, hint);
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
    char usual[32];
    write_usual(usual, sizeof usual, unit);
    int found = dl_names_find(usual, names, count);
    if (found >= 0) {
        *factor = units[dimension].factors[found];
        return DL_OK;
    }
    if (count == 0) return dl_error_set(err, DL_ERR_NAME, "unexpected '%s': no unit here", unit);
    return refuse_unit(unit, usual, names, count, err);
}

/* Returns the length of the number. An 'e' belongs to it only before digits, so that no unit is
 * split. */
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

dl_status dl_origin_parse(const char *text, dl_origin *origin, dl_error *err)
{
    int found = dl_names_find(text, origin_names, ORIGIN_COUNT);
    if (found >= 0) {
        *origin = (dl_origin)found;
        return DL_OK;
    }
    char hint[128];
    if (number_length(text) > 0)
        return dl_error_set(err, DL_ERR_NAME, "'%s' after the comma: this takes no list", text);
    dl_names_hint(hint, sizeof hint, text, origin_names, ORIGIN_COUNT);
    return dl_error_set(err, DL_ERR_NAME, "unknown origin '%s'%s", text, hint);
}

dl_status dl_amount_parse(const char *text, dl_dimension dimension, double *value, dl_error *err)
{
    const size_t length = number_length(text);
    DL_AUTOFREE char *number = dl_strndup(text, length);
    DL_AUTOFREE char *name = dl_strndup_trimmed(text + length, strlen(text + length));
    double parsed = 0, factor = 0;
    dl_status status = length == 0 ? dl_error_set(err, DL_ERR_PARSE, "'%s' is not a number", text)
                                   : dl_parse_double(number, -INFINITY, INFINITY, &parsed, err);
    if (status == DL_OK) status = parse_unit(name, dimension, &factor, err);
    if (status == DL_OK && !isfinite(parsed * factor)) {
        status = dl_error_set(err, DL_ERR_RANGE, "%s is too large", text);
    }
    if (status == DL_OK) *value = parsed * factor;
    return status;
}

/* Prefixes in steps of 1000 from the base unit, for displayed amounts. */
#define STEPS 7
static const char *const shown[][STEPS] = {
    [DL_DIMENSION_PURE] = {""},
    [DL_DIMENSION_BYTES] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"},
    [DL_DIMENSION_BYTES_PER_S] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"},
    [DL_DIMENSION_FLOP_PER_S] = {"flop/s", "kflop/s", "Mflop/s", "Gflop/s", "Tflop/s", "Pflop/s",
                                 "Eflop/s"},
    [DL_DIMENSION_NS] = {"ns", "us", "ms", "s"},
    [DL_DIMENSION_S] = {"s"},
};

const char *dl_dimension_units(char *text, size_t bytes, dl_dimension dimension)
{
    size_t used = 0;
    text[0] = '\0';
    for (int u = 0; u < UNIT_MAX && units[dimension].names[u] != NULL && used < bytes; u++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", u > 0 ? ", " : "",
                                 units[dimension].names[u]);
    return text;
}

const char *dl_amount_text(char *text, size_t bytes, double value, dl_dimension dimension)
{
    const char *const *names = shown[dimension];
    int step = 0;
    while (step + 1 < STEPS && names[step + 1] != NULL && fabs(value) >= 999.5) {
        value /= 1000;
        step++;
    }
    snprintf(text, bytes, "%.4g%s%s", value, names[step][0] != '\0' ? " " : "", names[step]);
    return text;
}

const char *dl_amount_unit(const char *text)
{
    text += number_length(text);
    return text + strspn(text, " \t");
}

static bool has_unit(const char *text)
{
    const char *unit = dl_amount_unit(text);
    return unit[0] != '\0' && unit[0] != ',' && unit[0] != '+';
}

/* Returns the probably intended unit: the first of GB, MB, kB (bytes, also per second), of Tflop/s,
 * Gflop/s, or of us, ms, s with which the number is in the range; NULL if there is none. */
static const char *likely_unit(double number, dl_dimension dimension, double low, double high)
{
    static const char *const usual[][3] = {
        [DL_DIMENSION_PURE] = {NULL},
        [DL_DIMENSION_BYTES] = {"GB", "MB", "kB"},
        [DL_DIMENSION_BYTES_PER_S] = {"GB/s", "MB/s", "kB/s"},
        [DL_DIMENSION_FLOP_PER_S] = {"Tflop/s", "Gflop/s", NULL},
        [DL_DIMENSION_NS] = {"us", "ms", "s"},
        [DL_DIMENSION_S] = {NULL},
    };
    for (int u = 0; u < 3 && usual[dimension][u] != NULL; u++) {
        double factor = 0;
        if (parse_unit(usual[dimension][u], dimension, &factor, NULL) != DL_OK) continue;
        if (number * factor >= low && number * factor <= high) return usual[dimension][u];
    }
    return NULL;
}

dl_status dl_amount_check(double value, dl_dimension dimension, double low, double high,
                          const char *text, dl_error *err)
{
    if (value >= low && value <= high) return DL_OK;
    char is[40], from[40], to[40], number[40] = "";
    const char *unit = has_unit(text) ? NULL : likely_unit(value, dimension, low, high);
    if (unit != NULL) snprintf(number, sizeof number, "%.*s", (int)number_length(text), text);
    return dl_error_set(err, DL_ERR_RANGE, "%s is not within %s to %s%s%s%s%s",
                        dl_amount_text(is, sizeof is, value, dimension),
                        dl_amount_text(from, sizeof from, low, dimension),
                        dl_amount_text(to, sizeof to, high, dimension),
                        unit != NULL ? "; did you forget the unit: " : "", number,
                        unit != NULL ? unit : "", unit != NULL ? "?" : "");
}

dl_status dl_bounds_parse(const char *text, dl_dimension dimension, double value, double *low,
                          double *high, dl_error *err)
{
    const char *to = strstr(text, " to "), *close = strchr(text, ')');
    if (to == NULL || close == NULL || close < to || close[1] != '\0') {
        return dl_error_set(err, DL_ERR_PARSE, "expected 'NUMBER (LOW to HIGH)', not '(%s'", text);
    }
    DL_AUTOFREE char *from = dl_strndup_trimmed(text, (size_t)(to - text));
    DL_AUTOFREE char *until = dl_strndup_trimmed(to + 4, (size_t)(close - to - 4));
    dl_status status = dl_amount_parse(from, dimension, low, err);
    if (status == DL_OK) status = dl_amount_parse(until, dimension, high, err);
    if (status == DL_OK && !(*low < *high && *low <= value && value <= *high)) {
        status = dl_error_set(err, DL_ERR_RANGE, "the number is not within its bounds (%s", text);
    }
    return status;
}

/* Parses "NUMBER [UNIT] [(LOW to HIGH)]". */
static dl_status parse_bounded(char *text, dl_dimension dimension, dl_quantity *parsed,
                               dl_error *err)
{
    char *open = strchr(text, '(');
    if (open != NULL) *open = '\0';
    dl_status status = dl_amount_parse(text, dimension, &parsed->value, err);
    if (status == DL_OK && parsed->value < 0) {
        return dl_error_set(err, DL_ERR_RANGE, "%s is negative", text);
    }
    if (status != DL_OK || open == NULL) return status;
    status = dl_bounds_parse(open + 1, dimension, parsed->value, &parsed->low, &parsed->high, err);
    if (status != DL_OK || parsed->low > 0) return status;
    return dl_error_set(err, DL_ERR_RANGE, "bounds must be above 0: (%s", open + 1);
}

dl_status dl_quantity_parse(const char *text, dl_dimension dimension, dl_quantity *quantity,
                            dl_error *err)
{
    size_t length = strcspn(text, ",");
    DL_AUTOFREE char *amount = dl_strndup_trimmed(text, length);
    DL_AUTOFREE char *origin =
        text[length] == ',' ? dl_strndup_trimmed(text + length + 1, strlen(text + length + 1))
                            : NULL;
    dl_quantity parsed = {.known = true};
    dl_status status = parse_bounded(amount, dimension, &parsed, err);
    if (status == DL_OK && origin != NULL) status = dl_origin_parse(origin, &parsed.origin, err);
    if (status == DL_OK) *quantity = parsed;
    return status;
}
