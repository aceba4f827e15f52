/* Tables as people publish them, brought into the form of measured rows. See the header. */
#include <ctype.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "calibrate/table/table_internal.h"
#include "common/alloc.h"
#include "common/csv.h"
#include "common/file.h"
#include "common/units.h"
#include "sim/report/measured.h"

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

/* Names in small letters, "per" as '/', '_' as a blank, without '#'. */
static const struct {
    const char *pattern, *column; /* column: NULL: refused, for `reason`; "": not used */
    double factor;                /* of the column's unit; 0: the value is a rate of steps */
    bool per_worker;
    const char *reason;
} known[] = {
    {"(number of |num |n )" WORKER "( used)?|" WORKER " count|" WORKERS
     "( used)?|ngpus?|world size",
     "workers", 1, false, NULL},
    {KIND NAME "[(]?" SAMPLES "/" SECOND "[)]?", "throughput_per_s", 1, false, NULL},
    {KIND NAME "[(]?" SAMPLES "/" SECOND "/" WORKER "[)]?|" KIND "throughput/" WORKER " [(]" SAMPLES
               "/" SECOND "[)]|" KIND SAMPLES "/" WORKER "/" SECOND,
     "throughput_per_s", 1, true, NULL},
    {".*(tokens?|toks?|words?)/(" WORKER "/)?" SECOND ".*", NULL, 1, false,
     "tokens are not samples: divide by the tokens of a sample, and name the column samples/s"},
    {KIND STEP "/" SECOND, "step_s", 0, false, NULL},
    {KIND "(" STEP "( time)?|time/" STEP ") [(]?" SECOND "[)]?|" SECOND "/" STEP, "step_s", 1,
     false, NULL},
    {KIND "(" STEP "( time)?|time/" STEP ") [(]?(ms|msec|milliseconds?)[)]?|(ms|msec)/" STEP,
     "step_s", 1e-3, false, NULL},
    {"(global|total|effective) (mini-?)?batch( ?size)?|gbs", "batch", 1, false, NULL},
    {"(mini-?)?batch( ?size)?/" WORKER "|per[ -]" WORKER " batch( ?size)?|local batch( ?size)?",
     "batch_per_gpu", 1, false, NULL},
    {"(mini-?)?batch ?size|bs", NULL, 1, false,
     "of all workers together (batch) or of each (batch_per_gpu)?"},
    {"speed-? ?up.*|(.* )?efficiency.*|scaling.*|[mh]fu.*|.*flop.*", "", 1, false, NULL},
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

/* Returns whether it is the name of a column of measured rows, which it writes in small letters. */
static bool is_measured_column(char *name)
{
    for (size_t i = 0; dl_measured_columns[i] != NULL; i++)
        if (strcasecmp(dl_measured_columns[i], name) == 0) {
            memcpy(name, dl_measured_columns[i], strlen(name));
            return true;
        }
    return false;
}

/* Converts a column's numbers to its unit; those of one worker are multiplied by `workers`. Other
 * texts stay, and are refused when they are read. */
static dl_status convert(dl_csv *csv, size_t column, double factor, int workers, dl_error *err)
{
    for (size_t row = 0; row < csv->rows; row++) {
        double value = 0, count = 1;
        dl_error ignored = {0};
        char **cell = &csv->cells[row * csv->columns + column];
        if (dl_parse_double(*cell, 0, 1e300, &value, &ignored) != DL_OK || value <= 0) continue;
        if (workers >= 0 && dl_parse_double(dl_csv_cell(csv, row, (size_t)workers), 1, 1e9, &count,
                                            &ignored) != DL_OK)
            return dl_error_set_at(err, DL_ERR_DATA, csv->path, csv->lines[row],
                                   "a rate of each worker needs the number of workers");
        free(*cell);
        *cell = dl_format("%.15g", factor > 0 ? value * factor * count : 1 / value);
    }
    return DL_OK;
}

static dl_status name_columns(dl_csv *csv, dl_error *err)
{
    int per_worker = -1, workers = -1;
    for (size_t c = 0; c < csv->columns; c++) {
        trim(csv->names[c]);
        DL_AUTOFREE char *simple = simple_name(csv->names[c]);
        size_t k = is_measured_column(csv->names[c]) ? DL_LENGTH(known) : 0;
        while (k < DL_LENGTH(known) && !matches(known[k].pattern, simple))
            k++;
        if (k == DL_LENGTH(known)) continue;
        if (known[k].column == NULL)
            return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0, "column '%s': %s", csv->names[c],
                                   known[k].reason);
        const char *name = known[k].column[0] != '\0' ? known[k].column : "note";
        if (dl_csv_column(csv, name) >= 0 && dl_csv_column(csv, name) != (int)c &&
            known[k].column[0] != '\0')
            return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0,
                                   "the columns %s and %s mean the same: give only one",
                                   csv->names[c], name);
        free(csv->names[c]);
        csv->names[c] = dl_strdup(name);
        if (known[k].factor != 1) (void)convert(csv, c, known[k].factor, -1, err);
        if (known[k].per_worker) per_worker = (int)c;
    }
    workers = dl_csv_column(csv, "workers");
    if (per_worker >= 0 && workers < 0)
        return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0,
                               "a rate of each worker needs a column workers (or gpus)");
    for (size_t c = 0; c < csv->columns; c++)
        if (strcmp(csv->names[c], "note") != 0 && dl_csv_column(csv, csv->names[c]) != (int)c)
            return dl_error_set_at(err, DL_ERR_DATA, csv->path, 0, "two columns are %s",
                                   csv->names[c]);
    return per_worker >= 0 ? convert(csv, (size_t)per_worker, 1, workers, err) : DL_OK;
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
static dl_status check_thousands(const dl_csv *csv, char separator, dl_error *err)
{
    for (size_t c = 0; c < csv->columns; c++) {
        double most = 0;
        const bool text =
            strcmp(csv->names[c], "note") == 0 || strcmp(csv->names[c], "source") == 0;
        if (text || has_decimals(csv, c)) continue;
        for (size_t row = 0; row < csv->rows; row++) {
            const char *cell = dl_csv_cell(csv, row, c);
            const double value = strtod(cell, NULL);
            if (cell[strspn(cell, "0123456789")] == '\0' && value > most) most = value;
        }
        for (size_t row = 0; row < csv->rows; row++) {
            const char *cell = dl_csv_cell(csv, row, c);
            const size_t length = grouped(cell, '.');
            if (length == 0 || cell[length] != '\0') continue;
            if (separator != ';' && 10 * strtod(cell, NULL) > most) continue;
            return dl_error_set_at(err, DL_ERR_DATA, csv->path, csv->lines[row],
                                   "column %s: does the point in %s separate thousands or "
                                   "decimals? Write thousands without a separator",
                                   csv->names[c], cell);
        }
    }
    return DL_OK;
}

dl_status dl_published_table_read(dl_csv *csv, const char *path, dl_error *err)
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
    for (size_t i = 0; i < csv->rows * csv->columns; i++)
        trim(csv->cells[i]);
    status = check_thousands(csv, separator, err);
    for (size_t i = 0; i < csv->rows * csv->columns && status == DL_OK; i++)
        if (isdigit((unsigned char)csv->cells[i][0])) write_plainly(csv->cells[i], separator);
    if (status == DL_OK) status = name_columns(csv, err);
    if (status != DL_OK) dl_csv_free(csv);
    return status;
}
