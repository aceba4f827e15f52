#include "trace/print.h"

#include "common/alloc.h"
#include "common/wrap.h"

/* Prints `first` (shorter than a line), then `text` wrapped at spaces, with continuation lines
 * aligned to the text's start. */
static void print_wrapped(FILE *out, const char *first, const char *text)
{
    const int indent = fprintf(out, "%s", first);
    dl_wrap(out, text, indent, indent, DL_PRINT_COLUMNS);
}

void dl_print_pair(FILE *out, const char *key, const char *value)
{
    DL_AUTOFREE char *first = dl_format("%-*s ", DL_PRINT_KEY_COLUMNS - 1, key);
    print_wrapped(out, first, value);
}

void dl_notes_print(const dl_notes *notes, const char *title, const char *first, FILE *out)
{
    if (notes->count > 0) fputs(title, out);
    for (size_t i = 0; i < notes->count; i++)
        print_wrapped(out, first, notes->lines[i]);
}

void dl_notes_write_json(dl_json *to, const char *name, const dl_notes *notes)
{
    DL_JSON_LIST (to, name, i, notes->count)
        dl_json_text_item(to, NULL, notes->lines[i]);
}
