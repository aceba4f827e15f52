#include "common/json.h"

#include <math.h>

#include "common/members.h"
#include "common/units.h"

/* Returns the length of the valid UTF-8 character at text, or 0. Overlong forms, surrogates and
 * codes over U+10FFFF are invalid (Unicode 15, table 3-7); the first or second byte reveals
 * them. */
static int utf8_bytes(const unsigned char *text)
{
    unsigned char lead = text[0];
    int bytes = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead > 0xf4) return 0;
    for (int i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0; /* also at the end of the string */
    }
    if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] > 0x9f) ||
        (lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] > 0x8f)) {
        return 0;
    }
    return bytes;
}

void dl_json_string(FILE *out, const char *text)
{
    fputc('"', out);
    const unsigned char *c = (const unsigned char *)text;
    while (*c != '\0') {
        int bytes = utf8_bytes(c);
        if (bytes == 0) {
            fputs("\xef\xbf\xbd", out); /* U+FFFD */
            bytes = 1;
        } else if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c < 0x20) {
            fprintf(out, "\\u%04x", *c);
        } else {
            fwrite(c, 1, (size_t)bytes, out);
        }
        c += bytes;
    }
    fputc('"', out);
}

void dl_json_number(FILE *out, double value)
{
    char text[DL_DOUBLE_TEXT_BYTES];
    fputs(isfinite(value) ? dl_format_double(text, value) : "null", out);
}

void dl_json_item(dl_json *to, const char *name)
{
    if (to->follows) fputc(',', to->out);
    to->follows = true;
    if (name == NULL) return;
    dl_json_string(to->out, name);
    fputc(':', to->out);
}

void dl_json_begin(dl_json *to, const char *name, char bracket)
{
    dl_json_item(to, name);
    fputc(bracket, to->out);
    to->follows = false;
}

void dl_json_end(dl_json *to, char bracket)
{
    fputc(bracket, to->out);
    to->follows = true;
}

void dl_json_text_item(dl_json *to, const char *name, const char *text)
{
    dl_json_item(to, name);
    if (text != NULL) {
        dl_json_string(to->out, text);
    } else {
        fputs("null", to->out);
    }
}

void dl_json_number_item(dl_json *to, const char *name, double number)
{
    dl_json_item(to, name);
    dl_json_number(to->out, number);
}

void dl_json_bool_item(dl_json *to, const char *name, bool value)
{
    dl_json_item(to, name);
    fputs(value ? "true" : "false", to->out);
}

void dl_json_null_item(dl_json *to, const char *name)
{
    dl_json_item(to, name);
    fputs("null", to->out);
}

void dl_json_put_members(dl_json *to, const char *format, va_list *args)
{
    dl_member m;
    while (dl_member_next(&m, &format, args)) {
        if (m.name[0] == '\0') continue;
        switch (m.kind) {
        case DL_MEMBER_TEXT: dl_json_text_item(to, m.name, m.text); break;
        case DL_MEMBER_TRUTH: dl_json_bool_item(to, m.name, m.count != 0); break;
        case DL_MEMBER_COUNT:
        case DL_MEMBER_NUMBER: dl_json_number_item(to, m.name, m.number); break;
        }
    }
}

void dl_json_members(dl_json *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    dl_json_put_members(to, format, &args);
    va_end(args);
}

void dl_json_object(dl_json *to, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    dl_json_begin(to, name, '{');
    dl_json_put_members(to, format, &args);
    dl_json_end(to, '}');
    va_end(args);
}
