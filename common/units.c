#include "common/units.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/system.h"

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    int failed = clock_gettime(id, &now);
    DL_ASSERT(failed == 0, "clock %d: %s", (int)id, strerror(errno));
    return (int64_t)now.tv_sec * DL_NS_PER_S + now.tv_nsec;
}

int64_t dl_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t dl_clock_thread_cpu_ns(void)
{
    return read_clock(dl_system_thread_clock);
}

dl_stopwatch dl_stopwatch_start(void)
{
    const int64_t cpu_ns = dl_clock_thread_cpu_ns();
    return (dl_stopwatch){.start_ns = dl_clock_ns(), .start_cpu_ns = cpu_ns};
}

int64_t dl_stopwatch_ns(const dl_stopwatch *watch)
{
    const int64_t ns = dl_clock_ns() - watch->start_ns;
    const int64_t cpu_ns = dl_clock_thread_cpu_ns() - watch->start_cpu_ns;
    return cpu_ns < ns ? cpu_ns : ns;
}

/* Returns the factor of a unit of bytes; 0 if it is unknown. */
static uint64_t unit_bytes(const char *unit, dl_error *err)
{
    static const char *const names[] = {"B", "kB", "MB", "GB", "KiB", "MiB", "GiB"};
    static const uint64_t factors[] = {1, 1000, 1000000, 1000000000, 1 << 10, 1 << 20, 1 << 30};
    enum { UNITS = sizeof names / sizeof names[0] };
    if (unit[0] == '\0') return 1;
    int index = dl_names_find(unit, names, UNITS);
    if (index >= 0) return factors[index];
    char hint[128];
    dl_names_hint(hint, sizeof hint, unit, names, UNITS);
    dl_error_set(err, DL_ERR_NAME, "unknown unit of bytes '%s'%s", unit, hint);
    return 0;
}

dl_status dl_parse_bytes(const char *text, uint64_t *bytes, dl_error *err)
{
    if (!isdigit((unsigned char)text[0])) {
        return dl_error_set(err, DL_ERR_PARSE, "'%s' is not a number of bytes (as 4096 or 64MiB)",
                            text);
    }
    char *unit;
    errno = 0;
    uint64_t number = strtoull(text, &unit, 10);
    int overflow = errno == ERANGE;
    uint64_t factor = unit_bytes(unit, err);
    if (factor == 0) return DL_ERR_NAME;
    if (overflow || number > UINT64_MAX / factor) {
        return dl_error_set(err, DL_ERR_RANGE, "'%s' is more than 2^64 - 1 bytes", text);
    }
    *bytes = number * factor;
    return DL_OK;
}

/* Returns true if text is not empty and consists only of these characters: strtol and strtod would
 * also accept leading blanks, hexadecimal digits, "inf" and "nan". */
static int consists_of(const char *text, const char *characters)
{
    return text[0] != '\0' && text[strspn(text, characters)] == '\0';
}

/* 2^53: all smaller whole numbers are exact doubles. */
#define WHOLE_MAX 9007199254740992.0

dl_status dl_parse_int(const char *text, int64_t low, int64_t high, int64_t *value, dl_error *err)
{
    char *end = NULL;
    errno = 0;
    int64_t number = 0;
    if (consists_of(text, "+-0123456789")) {
        number = strtoll(text, &end, 10);
    } else if (consists_of(text, "+-.0123456789eE") && strpbrk(text, "eE") != NULL) {
        const double real = strtod(text, &end);
        if (!(fabs(real) <= WHOLE_MAX) || real != trunc(real))
            end = NULL;
        else
            number = (int64_t)real;
    }
    if (end == NULL || end == text || *end != '\0') {
        return dl_error_set(err, DL_ERR_PARSE, "'%s' is not a whole number", text);
    }
    if (errno == ERANGE || number < low || number > high) {
        return dl_error_set(err, DL_ERR_RANGE, "%s is not in %" PRId64 "..%" PRId64, text, low,
                            high);
    }
    *value = number;
    return DL_OK;
}

dl_status dl_parse_double(const char *text, double low, double high, double *value, dl_error *err)
{
    char *end = NULL;
    double number = consists_of(text, "+-.0123456789eE") ? strtod(text, &end) : 0.0;
    if (end == NULL || end == text || *end != '\0') {
        return dl_error_set(err, DL_ERR_PARSE, "'%s' is not a number", text);
    }
    if (!isfinite(number) || number < low || number > high) {
        return dl_error_set(err, DL_ERR_RANGE, "%s is not in %g..%g", text, low, high);
    }
    *value = number;
    return DL_OK;
}

dl_status dl_parse_count(const char *text, double *count, dl_error *err)
{
    static const struct {
        char letter;
        double factor;
    } suffixes[] = {{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
    const size_t length = strlen(text);
    double factor = 1;
    for (size_t i = 0; i < DL_LENGTH(suffixes) && length > 1; i++)
        if (text[length - 1] == suffixes[i].letter) factor = suffixes[i].factor;
    DL_AUTOFREE char *number = dl_strndup(text, length - (factor > 1));
    dl_status status = dl_parse_double(number, 0, 1e14, count, err);
    if (status == DL_ERR_PARSE) {
        return dl_error_set(err, status, "'%s' is not a count, such as 25600000, 25.6e6 or 25.6M%s",
                            text, length > 1 && text[length - 1] == 'B' ? ", but bytes" : "");
    }
    if (status != DL_OK) return status;
    *count *= factor;
    if (*count < 1e6 && fabs(*count - nearbyint(*count)) > 1e-9 * *count) {
        return dl_error_set(err, DL_ERR_RANGE, "%s is not a whole number; %sM are as many millions",
                            text, text);
    }
    if (*count >= 1 && *count <= 1e14) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "%s is not in 1..1e14", text);
}

const char *dl_format_double(char text[DL_DOUBLE_TEXT_BYTES], double value)
{
    /* 15 digits suffice for most hand-written numbers, 17 for every double (DBL_DECIMAL_DIG). A NaN
     * may never compare equal, which runs the loop to its end. */
    for (int digits = DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(text, DL_DOUBLE_TEXT_BYTES, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof value) == 0) break;
    }
    return text;
}

/* Writes `value` with three digits in the largest of units[count] (each 1000 times the previous
 * one) in which it is at least 1; zero without decimals. `whole`: no decimals in the smallest
 * unit. */
static const char *format_scaled(char *text, size_t bytes, double value, const char *const *units,
                                 int count, int whole)
{
    int unit = 0;
    /* From 999.5, three digits would round up to 1000. */
    while (unit + 1 < count && fabs(value) >= 999.5) {
        value /= 1000.0;
        unit++;
    }
    double size = fabs(value);
    int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    if ((whole && unit == 0) || size == 0) decimals = 0;
    snprintf(text, bytes, "%.*f %s", decimals, value, units[unit]);
    return text;
}

const char *dl_format_ns(char *text, size_t bytes, double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return format_scaled(text, bytes, ns, units, 4, 0);
}

const char *dl_format_signed_ns(char *text, size_t bytes, double ns)
{
    char size[32];
    snprintf(text, bytes, "%c%s", ns < 0 ? '-' : '+', dl_format_ns(size, sizeof size, fabs(ns)));
    return text;
}

const char *dl_format_bytes(char *text, size_t bytes, double size_bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    return format_scaled(text, bytes, size_bytes, units, 5, 1);
}
