/* Tables of measured rows as people write and publish them, brought into one form: separators,
 * numbers, names and units. */
#include <ctype.h>
#include <math.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/file.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/report/measured.h"

/* In this order, which measured.c takes: keys of a point, settings of the run that must match the
 * point, the source, informative columns that are not evaluated, values in the order of
 * dl_measure. */
const char *const dl_measured_columns[] = {
    "cores",
    "workers",
    "batch",
    "sync",
    "interval",
    "n",
    "bound",
    "k",
    "moving_rate",
    "block_momentum",
    "accumulate",
    "lag",
    "model",
    "precision",
    "gpu_count",
    "where",
    "compress",
    "host_memory",
    "source",
    "use",
    "note",
    "staleness_mean_by_worker",
    "staleness_counts",
    "step_quantiles_s",
    "uploads_applied",
    "uploads_too_stale",
    "uploads_superseded",
    "uploads_unmerged",
    "merges",
    "steps",
    "seed",
    "throughput_per_s",
    "throughput_per_s_err",
    "step_s",
    "step_s_err",
    "staleness_mean",
    "staleness_sd",
    "staleness_p50",
    "staleness_p90",
    "others_frac",
    "steal_frac",
    NULL,
};
/* Returns whether text[bytes] matches an extended regular expression as a whole, without case. */
static bool matches(const char *pattern, const char *text)
{
    regex_t compiled;
    DL_AUTOFREE char *whole = dl_format("^(%s)$", pattern);
    const int failed = regcomp(&compiled, whole, REG_EXTENDED | REG_ICASE | REG_NOSUB);
    DL_ASSERT(failed == 0, "pattern %s", pattern);
    const bool found = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

/* --- separators ------------------------------------------------------------------------------- */

/* Returns the separator of a line of names: '\t', ';', or ',' for all others. */
static char separator_of(const char *line, size_t bytes)
{
    if (memchr(line, ',', bytes) == NULL && memchr(line, ';', bytes) != NULL) return ';';
    return memchr(line, '\t', bytes) != NULL ? '\t' : ',';
}

/* Returns whether the line separates the names of a Markdown table from its rows: "|---|--:|". */
static bool is_rule(const char *line, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && strchr("|:- \t\r", line[i]) != NULL)
        i++;
    return i == bytes && memchr(line, '|', bytes) != NULL && memchr(line, '-', bytes) != NULL;
}

/* Writes a line's cells as those of a CSV file. */
static void write_cells(FILE *out, const char *line, size_t bytes, char separator)
{
    const char *end = line + bytes;
    while (end > line && isspace((unsigned char)end[-1]))
        end--;
    if (separator == '|') {
        line += strspn(line, " \t");
        line += line < end && *line == '|';
        end -= end > line && end[-1] == '|';
    }
    for (const char *cell = line, *next; cell <= end; cell = next + 1) {
        bool inside = false; /* quotes */
        for (next = cell; next < end && (inside || *next != separator); next++)
            inside ^= *next == '"' && separator != '|';
        DL_AUTOFREE char *text = dl_strndup_trimmed(cell, (size_t)(next - cell));
        /* Markdown's marks of bold text and code */
        const size_t marks = separator == '|' ? strspn(text, "*`") : 0;
        size_t length = strlen(text);
        while (length > marks && separator == '|' && strchr("*`", text[length - 1]) != NULL)
            length--;
        const bool quoted = length > 1 && text[0] == '"' && text[length - 1] == '"';
        fputs(cell > line ? ",\"" : "\"", out);
        for (size_t i = marks; i < length && !quoted; i++) {
            if (text[i] == '"') fputc('"', out);
            fputc(text[i], out);
        }
        if (quoted) fwrite(text + 1, 1, length - 2, out);
        fputc('"', out);
    }
}

/* Returns the text as a CSV file with the same line numbers; the caller frees it. Of a text with a
 * Markdown table, lines outside of it become empty. *separator: that of the text; *tables: number
 * of Markdown tables. */
static char *as_csv(const char *text, size_t bytes, char *separator, size_t *tables)
{
    char *csv = NULL;
    size_t csv_bytes = 0;
    const char *const end = text + bytes, *names = NULL, *before;
    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3; /* a byte order mark */
    before = text;
    *separator = ',';
    *tables = 0;
    for (const char *line = text, *next; line < end; line = next) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)((feed != NULL ? feed : end) - line);
        next = feed != NULL ? feed + 1 : end;
        const bool empty = strspn(line, " \t\r") >= length || *line == '#';
        if (names == NULL && !empty) {
            names = line;
            *separator = separator_of(line, length);
        }
        if (is_rule(line, length) && memchr(before, '|', (size_t)(line - before)) != NULL) {
            *separator = '|';
            if ((*tables)++ == 0) names = before; /* the line above */
        }
        before = line;
    }
    if (*separator == ',') return dl_strndup(text, (size_t)(end - text));
    FILE *out = dl_text_stream(&csv, &csv_bytes);
    bool ended = false; /* the Markdown table */
    for (const char *line = text, *next; line < end; line = next) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)((feed != NULL ? feed : end) - line);
        next = feed != NULL ? feed + 1 : end;
        const bool blank = strspn(line, " \t\r") >= length;
        ended |= *separator == '|' && line > names && memchr(line, '|', length) == NULL;
        if (line >= names && !blank && !ended && !(*separator == '|' && is_rule(line, length)))
            write_cells(out, line, length, *separator);
        else if (line < names && *separator != '|')
            fwrite(line, 1, length, out);
        fputc('\n', out);
    }
    fclose(out);
    return csv;
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* Replaces blanks of Unicode by ' ', and removes those around the text. */
static void trim(char *text)
{
    static const char *const blanks[] = {"\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89"};
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        size_t b = 0;
        while (b < DL_LENGTH(blanks) && strncmp(from, blanks[b], strlen(blanks[b])) != 0)
            b++;
        *to = b < DL_LENGTH(blanks) ? ' ' : *from;
        from += b < DL_LENGTH(blanks) ? strlen(blanks[b]) : 1;
    }
    *to = '\0';
    const size_t lead = strspn(text, " \t");
    memmove(text, text + lead, strlen(text + lead) + 1);
    for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]);)
        text[--n] = '\0';
}

static void remove_all(char *text, const char *unwanted)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++)
        if (strchr(unwanted, *from) == NULL) *to++ = *from;
    *to = '\0';
}

/* Returns the length of one to three digits and groups of three after `separator` at the start of
 * the text; 0: there are no such groups. */
static size_t grouped(const char *text, char separator)
{
    static const char digits[] = "0123456789";
    size_t length = strspn(text, digits);
    const size_t first = length;
    if (first < 1 || first > 3 || text[0] == '0') return 0;
    while (text[length] == separator && strspn(text + length + 1, digits) == 3)
        length += 4;
    return length > first ? length : 0;
}

/* Returns whether the text is `mark` and digits only. */
static bool is_fraction(const char *text, char mark)
{
    const size_t digits = text[0] == mark ? strspn(text + 1, "0123456789") : 0;
    return digits > 0 && text[digits + 1] == '\0';
}

/* Writes a number without separated thousands and with a decimal point. In a file separated by ';'
 * a comma is the decimal point; elsewhere it separates groups of three digits. */
static void write_plainly(char *text, char separator)
{
    for (const char *blank = " _'"; *blank != '\0'; blank++) {
        const char *rest = text + grouped(text, *blank);
        if (rest > text && (*rest == '\0' || is_fraction(rest, '.') || is_fraction(rest, ',')))
            remove_all(text, " _'");
    }
    char *comma = strchr(text, ',');
    if (comma == NULL) return;
    const bool decimal = is_fraction(comma, ',');
    const size_t points = grouped(text, '.'), commas = grouped(text, ',');
    if (decimal && ((separator == ';' && text + strspn(text, "0123456789") == comma) ||
                    (separator != ',' && text + points == comma))) {
        *comma = '.';
        for (size_t i = 0; i < points; i++)
            if (text[i] == '.') text[i] = ' ';
        remove_all(text, " ");
    } else if (separator != ';' && commas > 0 &&
               (text[commas] == '\0' || is_fraction(text + commas, '.'))) {
        remove_all(text, ",");
    }
}

/* --- names of columns ------------------------------------------------------------------------- */

#define SAMPLES "(images?|imgs?|samples?|examples?|sequences?|seqs?|sentences?|items?|records?)"
#define SECOND "(s|sec|secs|seconds?)"
#define WORKER "(gpus?|devices?|workers?|cards?|accelerators?)"
#define WORKERS "(gpus|devices|workers|cards|accelerators)"
#define STEP "(it|its|iters?|iterations?|steps?|batch|batches)"
#define KIND "((train|training|average|avg|mean|total|aggregate|overall) )*"
#define NAME "((throughput|speed|performance) )?"

/* Ways of converting a column. */
typedef enum column_kind {
    COLUMN_OF_ALL,   /* multiplied by a factor, to the unit of the column of measured rows */
    COLUMN_OF_EACH,  /* of one worker: multiplied by the number of workers */
    COLUMN_OF_PASS,  /* of one of its passes: multiplied by their number too */
    COLUMN_INVERTED, /* steps per second */
    COLUMN_DERIVED,  /* follows from others: removed */
    COLUMN_REFUSED
} column_kind;

/* Names in small letters, with '/' for "per" and blanks for '_', without '#'. */
static const struct {
    const char *pattern, *column; /* the column of measured rows; the reason if it is refused */
    column_kind kind;
    double factor;
} known[] = {
    {"mode", "sync", COLUMN_OF_ALL, 1},
    {"h|tau|(local|inner) steps|sync (every|interval)", "interval", COLUMN_OF_ALL, 1},
    {"(grad(ient)? )?accum(ulation)? steps|grad(ient)? accum(ulation)?", "accumulate",
     COLUMN_OF_ALL, 1},
    {"(number of |num |n )" WORKER "( used)?|" WORKER " count|" WORKERS
     "( used)?|ngpus?|world size",
     "workers", COLUMN_OF_ALL, 1},
    {KIND NAME "[(]?" SAMPLES "/" SECOND "[)]?|throughput|measured/s", "throughput_per_s",
     COLUMN_OF_ALL, 1},
    {KIND NAME "[(]?" SAMPLES "/" SECOND "/" WORKER "[)]?|" KIND "throughput/" WORKER " [(]" SAMPLES
               "/" SECOND "[)]|" KIND SAMPLES "/" WORKER "/" SECOND,
     "throughput_per_s", COLUMN_OF_EACH, 1},
    {".*(tokens?|toks?|words?)/(" WORKER "/)?" SECOND ".*",
     "tokens are not samples: divide by the tokens of a sample, and name the column samples/s",
     COLUMN_REFUSED, 1},
    {KIND STEP "/" SECOND, "step_s", COLUMN_INVERTED, 1},
    {KIND "(" STEP "( time)?|time/" STEP ") [(]?" SECOND "[)]?|" SECOND "/" STEP, "step_s",
     COLUMN_OF_ALL, 1},
    {KIND "(" STEP "( time)?|time/" STEP ") [(]?(ms|msec|milliseconds?)[)]?|(ms|msec)/" STEP,
     "step_s", COLUMN_OF_ALL, 1e-3},
    {"(global|total|effective) (mini-?)?batch( ?size)?|gbs", "batch", COLUMN_OF_ALL, 1},
    {"(mini-?)?batch( ?size)?/" WORKER "|per[ -]" WORKER " batch( ?size)?|local batch( ?size)?",
     "batch", COLUMN_OF_EACH, 1},
    {"(train )?micro[ -]?batch( ?size)?(/" WORKER ")?", "batch", COLUMN_OF_PASS, 1},
    {"(mini-?)?batch ?size|bs", "of all workers together (batch) or of each (batch_per_gpu)?",
     COLUMN_REFUSED, 1},
    {"speed-? ?up.*|(.* )?efficiency.*|scaling.*|[mh]fu.*|.*flop.*", NULL, COLUMN_DERIVED, 1},
};

/* Returns a column's name as the patterns have it; the caller frees it. */
static char *simple_name(const char *name)
{
    char *simple = dl_strdup(name), *at;
    for (at = simple; *at != '\0'; at++)
        *at = (char)(*at == '_'   ? ' '
                     : *at == '[' ? '('
                     : *at == ']' ? ')'
                                  : tolower((unsigned char)*at));
    remove_all(simple, "#");
    trim(simple);
    while ((at = strstr(simple, " per ")) != NULL) {
        *at = '/';
        memmove(at + 1, at + 5, strlen(at + 5) + 1);
    }
    while ((at = strstr(simple, " /")) != NULL)
        memmove(at, at + 1, strlen(at));
    while ((at = strstr(simple, "/ ")) != NULL)
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    return simple;
}

/* Returns whether a cell of the column has a point before one, two or more than three digits. */
static bool has_decimals(const dl_csv *csv, size_t column)
{
    for (size_t row = 0; row < csv->rows; row++) {
        const char *point = strchr(dl_csv_cell(csv, row, column), '.');
        if (point != NULL && is_fraction(point, '.') && strlen(point) != 4) return true;
    }
    return false;
}

/* Refuses "1.280" beside "640": a number of thousands, or one with three decimals? */
static dl_status check_thousands(const dl_csv *csv, size_t column, char separator, dl_error *err)
{
    double most = 0;
    if (has_decimals(csv, column)) return DL_OK;
    for (size_t row = 0; row < csv->rows; row++) {
        const char *cell = dl_csv_cell(csv, row, column);
        const double value = strtod(cell, NULL);
        if (cell[strspn(cell, "0123456789")] == '\0' && value > most) most = value;
    }
    for (size_t row = 0; row < csv->rows; row++) {
        const char *cell = dl_csv_cell(csv, row, column);
        const size_t length = grouped(cell, '.');
        if (length == 0 || cell[length] != '\0') continue;
        if (separator != ';' && 10 * strtod(cell, NULL) > most) continue;
        return dl_error_set_at(err, DL_ERR_DATA, csv->path, csv->lines[row],
                               "column %s: does the point in %s separate thousands or decimals? "
                               "Write thousands without a separator",
                               csv->names[column], cell);
    }
    return DL_OK;
}

/* --- columns ---------------------------------------------------------------------------------- */

/* Returns the column of measured rows with this name in any case; NULL: none. */
static const char *measured_column(const char *name)
{
    for (size_t i = 0; dl_measured_columns[i] != NULL; i++)
        if (strcasecmp(dl_measured_columns[i], name) == 0) return dl_measured_columns[i];
    return NULL;
}

static bool is_swept(const dl_study *study, const char *name)
{
    for (size_t k = 0; study != NULL && k < study->key_count; k++)
        if (strcmp(study->keys[k].column, name) == 0) return true;
    return false;
}

/* Returns the index in `known` of the pattern that the name matches; DL_LENGTH(known): none. */
static size_t find_known(const char *name)
{
    DL_AUTOFREE char *simple = simple_name(name);
    size_t k = 0;
    while (k < DL_LENGTH(known) && !matches(known[k].pattern, simple))
        k++;
    return k;
}

static dl_status name_column(dl_csv *csv, size_t column, const char *name, dl_error *err)
{
    const int other = dl_csv_column(csv, name);
    if (other >= 0 && other != (int)column)
        return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0,
                               "the columns %s and %s mean the same: give only one",
                               csv->names[column], name);
    free(csv->names[column]);
    csv->names[column] = dl_strdup(name);
    return DL_OK;
}

static void remove_column(dl_csv *csv, size_t column)
{
    size_t kept = 0;
    for (size_t i = 0; i < csv->rows * csv->columns; i++) {
        if (i % csv->columns == column)
            free(csv->cells[i]);
        else
            csv->cells[kept++] = csv->cells[i];
    }
    free(csv->names[column]);
    csv->columns--;
    memmove(csv->names + column, csv->names + column + 1,
            (csv->columns - column) * sizeof *csv->names);
}

static column_kind kind_of(size_t k)
{
    return k < DL_LENGTH(known) ? known[k].kind : COLUMN_OF_ALL;
}

/* Writes the numbers of a column plainly and in its unit. Other texts stay. */
static dl_status take_numbers(dl_csv *csv, size_t column, size_t k, char separator, dl_error *err)
{
    const dl_status status = check_thousands(csv, column, separator, err);
    for (size_t row = 0; row < csv->rows && status == DL_OK; row++) {
        double value = 0;
        dl_error ignored = {0};
        char **cell = &csv->cells[row * csv->columns + column];
        if (isdigit((unsigned char)(*cell)[0])) write_plainly(*cell, separator);
        const bool inverts = kind_of(k) == COLUMN_INVERTED;
        const double factor = k < DL_LENGTH(known) ? known[k].factor : 1;
        if ((factor == 1 && !inverts) ||
            dl_parse_double(*cell, 0, 1e300, &value, &ignored) != DL_OK || value <= 0)
            continue;
        free(*cell);
        *cell = dl_format("%.15g", inverts ? 1 / value : value * factor);
    }
    return status;
}

/* Multiplies the cells of a column by those of another. Empty cells stay empty. */
static dl_status multiply(dl_csv *csv, size_t column, const char *by, dl_error *err)
{
    if (dl_csv_column(csv, by) < 0)
        return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0,
                               "the column %s needs a column %s, as a point has the values of all "
                               "workers",
                               csv->names[column], by);
    dl_status status = DL_OK;
    for (size_t row = 0; row < csv->rows && status == DL_OK; row++) {
        double part = 0, count = 0;
        if ((status = dl_csv_number(csv, row, column, &part, err)) ||
            (status = dl_csv_number_in(csv, row, by, &count, err)) || isnan(part))
            continue;
        char **cell = &csv->cells[row * csv->columns + column];
        free(*cell);
        *cell = isnan(count) ? dl_strdup("") : dl_format("%.15g", part * count);
    }
    return status;
}

/* Brings a column with the pattern `k` (DL_LENGTH(known): none) into the form of measured rows,
 * except that values of one worker stay. */
static dl_status take_column(dl_csv *csv, size_t column, size_t k, char separator, dl_error *err)
{
    static const char *const numbers[] = {"workers", "batch", "throughput_per_s", "step_s"};
    const char *name = k < DL_LENGTH(known) ? known[k].column : measured_column(csv->names[column]);
    dl_status status = DL_OK;
    if (name == NULL) return DL_OK;
    if (kind_of(k) == COLUMN_REFUSED)
        return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0, "column '%s': %s",
                               csv->names[column], name);
    if (dl_names_find(name, numbers, DL_LENGTH(numbers)) >= 0)
        status = take_numbers(csv, column, k, separator, err);
    if (status == DL_OK && kind_of(k) != COLUMN_OF_EACH && kind_of(k) != COLUMN_OF_PASS)
        status = name_column(csv, column, name, err);
    return status;
}

static dl_status take_columns(dl_csv *csv, const dl_study *study, char separator, dl_error *err)
{
    dl_status status = DL_OK;
    DL_AUTOFREE size_t *as = dl_calloc(csv->columns, sizeof *as, "columns"); /* index in known */
    for (size_t c = 0; c < csv->columns && status == DL_OK; c++) {
        const bool swept = is_swept(study, csv->names[c]);
        as[c] = swept || measured_column(csv->names[c]) != NULL ? DL_LENGTH(known)
                                                                : find_known(csv->names[c]);
        if (!swept) status = take_column(csv, c, as[c], separator, err);
    }
    for (size_t c = csv->columns; c > 0 && status == DL_OK; c--) {
        const column_kind kind = kind_of(as[c - 1]);
        if (kind == COLUMN_DERIVED) remove_column(csv, c - 1);
        if (kind == COLUMN_OF_PASS) status = multiply(csv, c - 1, "accumulate", err);
        if (status == DL_OK && (kind == COLUMN_OF_PASS || kind == COLUMN_OF_EACH)) {
            status = multiply(csv, c - 1, "workers", err);
            if (status == DL_OK) status = name_column(csv, c - 1, known[as[c - 1]].column, err);
        }
    }
    return status;
}

dl_status dl_measured_table_read(dl_csv *csv, const char *path, const dl_study *study,
                                 dl_error *err)
{
    DL_AUTOFREE char *text = NULL, *plain = NULL;
    size_t bytes = 0, tables = 0;
    char separator = ',';
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    if (strlen(text) != bytes) /* a NUL byte, which is refused with its line */
        return dl_csv_read_text(csv, path, text, bytes, err);
    plain = as_csv(text, bytes, &separator, &tables);
    if (tables > 1)
        return dl_error_set_at(err, DL_ERR_DATA, path, 0, "has %zu tables: keep one", tables);
    status = dl_csv_read_text(csv, path, plain, strlen(plain), err);
    if (status != DL_OK) return status;
    for (size_t c = 0; c < csv->columns; c++)
        trim(csv->names[c]);
    for (size_t i = 0; i < csv->rows * csv->columns; i++)
        trim(csv->cells[i]);
    status = take_columns(csv, study, separator, err);
    if (status != DL_OK) dl_csv_free(csv);
    return status;
}
