#include "common/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/bytes.h"
#include "common/status.h"

#define PREFIX_LETTERS 3 /* minimum length of a prefix; shorter ones match too many names */

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Levenshtein distance, row by row: row[j] is the distance between the first i letters of `a` and
 * the first j letters of `b`; `diagonal` is row[j - 1] of the previous row. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t columns = strlen(b);
    DL_AUTOFREE size_t *row = dl_calloc(columns + 1, sizeof *row, "edit distance");
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t above = row[j];
            size_t change = same_letter(a[i - 1], b[j - 1]) ? 0 : 1;
            row[j] = diagonal + change;
            if (above + 1 < row[j]) row[j] = above + 1;
            if (row[j - 1] + 1 < row[j]) row[j] = row[j - 1] + 1;
            diagonal = above;
        }
    }
    return row[columns];
}

/* Returns the first entry that starts with `name`, which must have at least PREFIX_LETTERS letters;
 * -1 if there is none. */
static int continued(const char *name, const char *const *names, size_t count)
{
    const size_t letters = strlen(name);
    for (size_t i = 0; i < count && letters >= PREFIX_LETTERS; i++)
        if (strncasecmp(name, names[i], letters) == 0) return (int)i;
    return -1;
}

int dl_names_nearest(const char *name, const char *const *names, size_t count)
{
    size_t letters = strlen(name);
    size_t best_distance = letters / 2 + 1;
    int best = -1;
    for (size_t i = 0; i < count; i++) {
        /* A difference in length requires at least that many edits: skip names that cannot be
         * nearer, so that a very long `name` costs no time. */
        size_t length = strlen(names[i]);
        size_t least = length > letters ? length - letters : letters - length;
        if (least >= best_distance) continue;
        size_t distance = edit_distance(name, names[i]);
        if (distance < best_distance) {
            best_distance = distance;
            best = (int)i;
        }
    }
    const int longer = best_distance > 1 ? continued(name, names, count) : -1;
    return longer >= 0 ? longer : best;
}

int dl_name_letter(const char **name)
{
    *name += strspn(*name, "_-. ");
    return **name != '\0' ? tolower((unsigned char)*(*name)++) : 0;
}

bool dl_names_alike(const char *a, const char *b)
{
    int letter;
    do {
        letter = dl_name_letter(&a);
        if (letter != dl_name_letter(&b)) return false;
    } while (letter != 0);
    return true;
}

int dl_names_find(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) return (int)i;
    }
    return -1;
}

void dl_names_hint(char *text, size_t bytes, const char *name, const char *const *names,
                   size_t count)
{
    DL_ASSERT(bytes > 0, "no room for a hint about '%s'", name);
    text[0] = '\0';
    int nearest = dl_names_nearest(name, names, count);
    if (nearest >= 0) {
        snprintf(text, bytes, "; did you mean '%s'?", names[nearest]);
        return;
    }
    size_t used = 0;
    for (size_t i = 0; i < count && used < bytes; i++) {
        int length =
            snprintf(text + used, bytes - used, "%s%s", i == 0 ? "; known: " : ", ", names[i]);
        used += (size_t)length;
    }
}

const dl_word *dl_word_find(const dl_word *words, const char *given)
{
    for (const dl_word *w = words; w != NULL && w->word != NULL; w++) {
        size_t i = 0;
        while (w->word[i] != '\0' && same_letter(w->word[i], given[i] == '-' ? '_' : given[i]))
            i++;
        if (w->word[i] == '\0' && given[i] == '\0') return w;
    }
    return NULL;
}

bool dl_ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool dl_holds_any(const char *text, const char *const *parts)
{
    for (; *parts != NULL; parts++) {
        if (strcasestr(text, *parts) != NULL) return true;
    }
    return false;
}

const char *dl_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

char *dl_folder_name(const char *path)
{
    const int bytes = (int)(dl_base_name(path) - path);
    return bytes > 0 ? dl_format("%.*s", bytes, path) : dl_strdup(".");
}

char *dl_path_beside(const char *file, const char *path)
{
    const int bytes = path[0] != '/' ? (int)(dl_base_name(file) - file) : 0;
    return dl_format("%.*s%s", bytes, file, path);
}

uint64_t dl_hash_text(const char *text)
{
    return dl_hash_bytes(DL_HASH_START, text, strlen(text));
}
