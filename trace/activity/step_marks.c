#include "trace/activity/step_marks.h"

#include <ctype.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/sort.h"

#define WORD_COUNT_MIN 3
#define TEXT_COUNT_MIN 5
#define TEXT_VARIATION_MAX 0.5
#define SHARE_MIN 0.5
#define TEXT_SHARE_MIN 0.8

/* The three forms described in the header, best first. */
typedef enum mark_form { FORM_NUMBER = 1, FORM_WORD, FORM_TEXT, FORM_NONE } mark_form;

/* A range or mark with its sort key. */
typedef struct mark {
    uint32_t group; /* group of its text times 2, plus 1 for instants; 0 if all are one group */
    uint32_t thread;
    uint32_t name;
    bool instant;
    int64_t start_ns, end_ns;
} mark;

/* A string with its numbers replaced. */
typedef struct plain_text {
    char *text;
    uint32_t name; /* index of the string */
} plain_text;

/* Of two ranges with equal start, the outer one comes first. */
DL_ORDER(compare_marks, mark, DL_BY(group), DL_BY(thread), DL_BY(start_ns),
         DL_BY_DESCENDING(end_ns));

DL_ORDER(compare_texts, plain_text, DL_BY_TEXT(text), DL_BY(name));

bool dl_text_names_step(const char *text)
{
    static const char *const words[] = {"iteration", "iter", "step", "minibatch", "batch"};
    for (size_t i = 0; text[i] != '\0'; i++) {
        bool begins = i == 0 || !isalpha((unsigned char)text[i - 1]) ||
                      (isupper((unsigned char)text[i]) && islower((unsigned char)text[i - 1]));
        for (size_t w = 0; begins && w < DL_LENGTH(words); w++) {
            size_t length = strlen(words[w]);
            if (strncasecmp(text + i, words[w], length) != 0) continue;
            unsigned char next = (unsigned char)text[i + length];
            if (!isalpha(next) || isupper(next)) return true;
        }
    }
    return false;
}

/* Returns a copy of `text` with # for each number. */
static char *without_numbers(const char *text)
{
    char *copy = dl_strdup(text);
    size_t length = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        bool digit = isdigit((unsigned char)text[i]);
        if (digit && i > 0 && isdigit((unsigned char)text[i - 1])) continue;
        copy[length++] = digit ? '#' : text[i];
    }
    copy[length] = '\0';
    return copy;
}

/* Returns all strings without their numbers, sorted; sets groups[string_count] to the index of each
 * string's first equal text in that order. */
static plain_text *group_texts(const dl_marked_trace *trace, uint32_t *groups)
{
    plain_text *texts = dl_calloc(trace->string_count, sizeof *texts, "texts of ranges");
    for (size_t i = 0; i < trace->string_count; i++)
        texts[i] = (plain_text){without_numbers(trace->strings[i]), (uint32_t)i};
    qsort(texts, trace->string_count, sizeof *texts, compare_texts);
    uint32_t group = 0;
    for (size_t i = 0; i < trace->string_count; i++) {
        if (i > 0 && strcmp(texts[i].text, texts[group].text) != 0) group = (uint32_t)i;
        groups[texts[i].name] = group;
    }
    return texts;
}

static bool is_mark(const dl_activity *activity, size_t string_count)
{
    return (activity->kind == DL_ACTIVITY_RANGE || activity->kind == DL_ACTIVITY_MARK) &&
           activity->name != 0 && activity->name < string_count;
}

/* Returns the sorted ranges and marks whose name is wanted (NULL: all names); groups = NULL: all
 * belong to one group. */
static mark *collect_marks(const dl_marked_trace *trace, const uint32_t *groups, const bool *wanted,
                           size_t *mark_count)
{
    mark *marks = NULL;
    size_t count = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const dl_activity *activity = &trace->activities[i];
        if (!is_mark(activity, trace->string_count)) continue;
        if (wanted != NULL && !wanted[activity->name]) continue;
        DL_APPEND(marks, count, "ranges") =
            (mark){.group = groups != NULL
                                ? 2 * groups[activity->name] + (activity->kind == DL_ACTIVITY_MARK)
                                : 0,
                   .thread = groups != NULL ? activity->thread : 0,
                   .name = activity->name,
                   .instant = activity->kind == DL_ACTIVITY_MARK,
                   .start_ns = activity->start_ns,
                   .end_ns = activity->start_ns + activity->duration_ns};
    }
    *mark_count = count;
    if (count > 0) qsort(marks, count, sizeof *marks, compare_marks);
    return marks;
}

/* Removes marks inside earlier ones and ends instants at the next one; returns the number kept. */
static size_t flatten(mark *marks, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && marks[kept - 1].instant) {
            marks[kept - 1].end_ns = marks[i].start_ns;
        } else if (kept > 0 && marks[i].start_ns < marks[kept - 1].end_ns) {
            continue;
        }
        marks[kept++] = marks[i];
    }
    if (kept > 0 && marks[kept - 1].instant) marks[kept - 1].end_ns = INT64_MAX;
    return kept;
}

/* Returns the number of launches before `time_ns`. */
static size_t launches_before(const dl_marked_trace *trace, int64_t time_ns)
{
    size_t count;
    DL_BISECT(count, trace->launch_count, trace->launches_ns[count] < time_ns);
    return count;
}

/* Squared coefficient of variation of the distances between starts. */
static double variation_of_starts(const mark *marks, size_t count)
{
    double sum = 0, squares = 0, number = (double)(count - 1);
    for (size_t i = 0; i + 1 < count; i++) {
        double distance_ns = (double)(marks[i + 1].start_ns - marks[i].start_ns);
        sum += distance_ns;
        squares += distance_ns * distance_ns;
    }
    double mean = sum / number;
    return mean > 0 ? squares / number / (mean * mean) - 1 : (double)INT64_MAX;
}

static mark_form form_of(const dl_marked_trace *trace, const mark *marks, size_t count)
{
    const char *text = trace->strings[marks[0].name];
    size_t changes = 0;
    for (size_t i = 0; i + 1 < count; i++)
        changes += marks[i].name != marks[i + 1].name;
    if (dl_text_names_step(text)) {
        bool numbered = text[strcspn(text, "0123456789")] != '\0';
        if (numbered && 5 * changes >= 4 * (count - 1)) return FORM_NUMBER;
        if (count >= WORD_COUNT_MIN) return FORM_WORD;
    }
    if (count >= TEXT_COUNT_MIN &&
        variation_of_starts(marks, count) <= TEXT_VARIATION_MAX * TEXT_VARIATION_MAX)
        return FORM_TEXT;
    return FORM_NONE;
}

/* Returns the number of launches inside the marks, or 0 if they do not represent steps. */
static size_t launches_inside(const dl_marked_trace *trace, const mark *marks, size_t count,
                              mark_form form)
{
    size_t inside = 0;
    size_t span =
        launches_before(trace, marks[count - 1].end_ns) - launches_before(trace, marks[0].start_ns);
    for (size_t i = 0; i < count; i++)
        inside +=
            launches_before(trace, marks[i].end_ns) - launches_before(trace, marks[i].start_ns);
    double least = form == FORM_TEXT ? TEXT_SHARE_MIN : SHARE_MIN;
    if ((double)inside < least * (double)span) return 0;
    if (form != FORM_NUMBER && 2 * inside < trace->launch_count) return 0;
    return inside;
}

static void keep(dl_step_marks *marks, const mark *list, size_t count, const char *text)
{
    dl_step_marks_free(marks);
    marks->count = count;
    marks->text = dl_strdup(text);
    marks->starts_ns = dl_calloc(count, sizeof(int64_t), "steps' ranges");
    marks->ends_ns = dl_calloc(count, sizeof(int64_t), "steps' ranges");
    for (size_t i = 0; i < count; i++) {
        marks->starts_ns[i] = list[i].start_ns;
        marks->ends_ns[i] = list[i].end_ns;
    }
}

void dl_step_marks_find(dl_step_marks *marks, const dl_marked_trace *trace)
{
    *marks = (dl_step_marks){0};
    DL_AUTOFREE uint32_t *groups =
        dl_calloc(trace->string_count, sizeof *groups, "texts of ranges");
    DL_AUTOFREE plain_text *texts = group_texts(trace, groups);
    size_t count = 0, best_inside = 0;
    DL_AUTOFREE mark *list = collect_marks(trace, groups, NULL, &count);
    mark_form best = FORM_NONE;
    DL_GROUPS (first, end, count,
               list[end].group == list[first].group && list[end].thread == list[first].thread) {
        const char *text = texts[list[first].group / 2].text;
        size_t kept = flatten(list + first, end - first);
        mark_form form = form_of(trace, list + first, kept);
        if (form == FORM_NONE || form > best) continue;
        size_t inside = launches_inside(trace, list + first, kept, form);
        if (inside == 0 && trace->launch_count > 0) continue;
        if (form == best &&
            (inside < best_inside || (inside == best_inside && kept <= marks->count)))
            continue;
        best = form;
        best_inside = inside;
        keep(marks, list + first, kept, text);
    }
    for (size_t i = 0; i < trace->string_count; i++)
        free(texts[i].text);
}

dl_status dl_step_marks_match(dl_step_marks *marks, const dl_marked_trace *trace,
                              const char *expression, dl_error *err)
{
    *marks = (dl_step_marks){0};
    regex_t compiled;
    int failure = regcomp(&compiled, expression, REG_EXTENDED | REG_NOSUB);
    if (failure != 0) {
        char text[200];
        regerror(failure, &compiled, text, sizeof text);
        return dl_error_set(err, DL_ERR_PARSE, "step expression '%s': %s", expression, text);
    }
    DL_AUTOFREE bool *wanted = dl_calloc(trace->string_count, sizeof *wanted, "texts of ranges");
    for (size_t i = 1; i < trace->string_count; i++)
        wanted[i] = regexec(&compiled, trace->strings[i], 0, NULL, 0) == 0;
    regfree(&compiled);
    size_t count = 0;
    DL_AUTOFREE mark *list = collect_marks(trace, NULL, wanted, &count);
    if (count == 0)
        return dl_error_set(err, DL_ERR_DATA, "no range or mark matches the step expression '%s'",
                            expression);
    keep(marks, list, flatten(list, count), expression);
    return DL_OK;
}

void dl_step_marks_free(dl_step_marks *marks)
{
    free(marks->starts_ns);
    free(marks->ends_ns);
    free(marks->text);
    *marks = (dl_step_marks){0};
}
