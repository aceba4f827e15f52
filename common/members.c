#include "common/members.h"

#include <math.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* Copies `length` bytes, replacing "%%" by "%". */
static void copy_part(char *to, size_t bytes, const char *from, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        DL_ASSERT(n + 1 < bytes, "%s", from);
        to[n++] = from[i];
        i += from[i] == '%' && i + 1 < length && from[i + 1] == '%';
    }
    to[n] = '\0';
}

/* Reads the value of a conversion; `number` loses digits of integers beyond 2^53, as most JSON
 * readers do. */
static void take_value(dl_member *m, const char *type, va_list *args)
{
    m->kind = DL_MEMBER_COUNT;
    if (strcmp(type, "s") == 0) {
        m->kind = DL_MEMBER_TEXT;
        m->text = va_arg(*args, const char *);
        return;
    }
    if (strcmp(type, "g") == 0 || strcmp(type, "f") == 0) {
        m->kind = DL_MEMBER_NUMBER;
        m->number = va_arg(*args, double);
        return;
    }
    if (strcmp(type, "hhd") == 0) {
        m->kind = DL_MEMBER_TRUTH;
        m->count = va_arg(*args, int) != 0;
    } else if (strcmp(type, "d") == 0) {
        m->count = va_arg(*args, int);
    } else if (strcmp(type, "u") == 0) {
        m->count = va_arg(*args, unsigned);
    } else if (strcmp(type, "zu") == 0) {
        m->count = (int64_t)va_arg(*args, size_t);
    } else if (strcmp(type, "lu") == 0) {
        m->count = (int64_t)va_arg(*args, unsigned long);
    } else {
        DL_ASSERT(strcmp(type, "lld") == 0 || strcmp(type, "llu") == 0, "%s", type);
        m->count = va_arg(*args, long long);
    }
    m->number = (double)m->count;
}

bool dl_member_next(dl_member *member, const char **format, va_list *args)
{
    const char *text = *format;
    if (*text == '\0') return false;
    const size_t name = strcspn(text, "=|"), equals = strcspn(text, "=");
    const char *conversion = text + equals + 1;
    DL_ASSERT(text[equals] == '=' && conversion[0] == '%', "%s", text);
    const size_t before = 1 + strspn(conversion + 1, "+-.0123456789");
    const char *letters = conversion + before;
    /* "%gns" is a double with a unit: a type ends at the first of these letters. */
    const size_t type = strcspn(letters, "dugfs") + 1;
    const size_t end = strcspn(conversion, " ");
    char of[8];
    DL_ASSERT(before + type <= end, "%s", text);
    *member = (dl_member){.number = (double)NAN,
                          .is_signed = conversion[1] == '+',
                          .is_left = conversion[1] == '-',
                          .digits = letters[-2] == '.' ? letters[-1] - '0' : -1};
    copy_part(member->name, sizeof member->name, text, name);
    copy_part(member->heading, sizeof member->heading, text + (name < equals ? name + 1 : 0),
              name < equals ? equals - name - 1 : name);
    copy_part(member->unit, sizeof member->unit, letters + type, end - before - type);
    copy_part(of, sizeof of, letters, type);
    member->short_form = of[0] == 'g';
    take_value(member, of, args);
    *format = conversion + end + (conversion[end] == ' ');
    return true;
}

char *dl_member_text(const dl_member *m)
{
    const double value = m->unit[0] == '%' ? 100 * m->number : m->number;
    if (m->kind == DL_MEMBER_TEXT) return dl_strdup(m->text != NULL ? m->text : "");
    if (m->kind == DL_MEMBER_TRUTH) return dl_strdup(m->count != 0 ? "yes" : "");
    if (isnan(m->number)) return dl_strdup("");
    if (strcmp(m->unit, "ns") == 0)
        return dl_strdup(m->is_signed ? DL_SIGNED_NS_TEXT(value) : DL_NS_TEXT(value));
    if (m->unit[0] == 'B') return dl_format("%s%s", DL_BYTES_TEXT(value), m->unit + 1);
    if (m->kind == DL_MEMBER_COUNT) return dl_format("%lld", (long long)m->count);
    if (m->short_form) return dl_format("%.*g", m->digits, value);
    return dl_format(m->is_signed ? "%+.*f" : "%.*f", m->digits, value);
}
