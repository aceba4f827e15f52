#include "trace/print.h"

#include <string.h>

#include "common/units.h"

enum { CELL_BYTES = 32 };

void dl_print_pair(FILE *out, const char *key, const char *value)
{
    size_t room = DL_PRINT_COLUMNS - DL_PRINT_KEY_COLUMNS;
    fprintf(out, "%-*s ", DL_PRINT_KEY_COLUMNS - 1, key);
    while (strlen(value) > room) {
        size_t length = room;
        while (length > 0 && value[length] != ' ')
            length--;
        if (length == 0) length = strcspn(value, " ");
        fprintf(out, "%.*s\n", (int)length, value);
        value += length + (value[length] == ' ');
        if (*value == '\0') return;
        fprintf(out, "%*s", DL_PRINT_KEY_COLUMNS, "");
    }
    fprintf(out, "%s\n", value);
}

void dl_print_ns(FILE *out, int columns, double ns)
{
    char cell[CELL_BYTES];
    fprintf(out, "%*s", columns, dl_format_ns(cell, sizeof cell, ns));
}
