#include "sim/value.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* Returns the next comma-separated part of *text, trimmed, and moves *text after it; NULL at the
 * end. The caller frees it. */
static char *next_part(const char **text)
{
    if (*text == NULL) return NULL;
    size_t length = strcspn(*text, ",");
    char *part = dl_strndup_trimmed(*text, length);
    *text = (*text)[length] == ',' ? *text + length + 1 : NULL;
    return part;
}

static dl_status parse_number(const char *part, dl_dimension dimension, dl_value *value,
                              dl_error *err)
{
    const char *sign = strstr(part, "+-");
    if (sign == NULL) return dl_amount_parse(part, dimension, &value->value, err);
    DL_AUTOFREE char *number = dl_strndup_trimmed(part, (size_t)(sign - part));
    DL_AUTOFREE char *error = dl_strndup_trimmed(sign + 2, strlen(sign + 2));
    const char *unit = dl_amount_unit(error);
    dl_status status = dl_amount_parse(error, dimension, &value->error, err);
    if (status == DL_OK && value->error < 0) {
        status = dl_error_set(err, DL_ERR_RANGE, "the standard error %s is negative", error);
    } else if (status == DL_OK && *dl_amount_unit(number) == '\0') {
        DL_AUTOFREE char *with_unit = dl_format("%s%s", number, unit);
        status = dl_amount_parse(with_unit, dimension, &value->value, err);
    } else if (status == DL_OK && *unit == '\0') {
        status = dl_error_set(err, DL_ERR_PARSE, "the standard error needs a unit too: %s%s", error,
                              dl_amount_unit(number));
    } else if (status == DL_OK) {
        status = dl_amount_parse(number, dimension, &value->value, err);
    }
    return status;
}

static dl_status parse_count(const char *part, int64_t *count, dl_error *err)
{
    const char *text = part + 1;
    text += strspn(text, " \t");
    if (*text != '=') {
        return dl_error_set(err, DL_ERR_PARSE, "expected 'n = COUNT', not '%s'", part);
    }
    text++;
    text += strspn(text, " \t");
    return dl_parse_int(text, 1, INT64_MAX, count, err);
}

dl_status dl_value_parse(const char *text, dl_dimension dimension, dl_value *value, dl_error *err)
{
    dl_value parsed = {.known = true};
    const char *rest = text;
    char *part = next_part(&rest), *open = strchr(part, '(');
    if (open != NULL) *open = '\0';
    dl_status status = parse_number(part, dimension, &parsed, err);
    if (status == DL_OK && open != NULL) {
        status = dl_bounds_parse(open + 1, dimension, parsed.value, &parsed.low, &parsed.high, err);
    }
    free(part);
    part = status == DL_OK ? next_part(&rest) : NULL;
    if (part != NULL && part[0] == 'n' && (part[1] == '=' || part[1] == ' ')) {
        status = parse_count(part, &parsed.count, err);
        free(part);
        part = status == DL_OK ? next_part(&rest) : NULL;
    }
    if (part != NULL) status = dl_origin_parse(part, &parsed.origin, err);
    free(part);
    if (status == DL_OK && rest != NULL) {
        status = dl_error_set(err, DL_ERR_PARSE, "unexpected ',%s' after the origin", rest);
    }
    if (status == DL_OK) *value = parsed;
    return status;
}

void dl_value_write(FILE *out, const dl_value *value)
{
    char text[DL_DOUBLE_TEXT_BYTES];
    fputs(dl_format_double(text, value->value), out);
    if (dl_value_is_bounded(value)) {
        fprintf(out, " (%s to ", dl_format_double(text, value->low));
        fprintf(out, "%s)", dl_format_double(text, value->high));
    }
    if (value->error > 0) fprintf(out, " +- %s", dl_format_double(text, value->error));
    if (value->count > 0) fprintf(out, ", n = %lld", (long long)value->count);
    fprintf(out, ", %s", dl_origin_name(value->origin));
}
