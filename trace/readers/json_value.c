#include "trace/readers/json_events.h"

#include <ctype.h>
#include <string.h>

#define NS_DIGITS_OF_US 3 /* 1 us = 10^3 ns */

bool dl_json_is(dl_json_text value, const char *text)
{
    size_t length = strlen(text);
    return value.at != NULL && value.bytes == length + 2 && value.at[0] == '"' &&
           memcmp(value.at + 1, text, length) == 0;
}

/* Returns the text of a string without its quotes. */
static dl_json_text without_quotes(dl_json_text value)
{
    if (value.at == NULL || value.bytes < 2 || value.at[0] != '"') return value;
    return (dl_json_text){value.at + 1, value.bytes - 2};
}

bool dl_json_int(dl_json_text value, int64_t *number)
{
    dl_json_text text = without_quotes(value);
    if (text.at == NULL) return false;
    size_t first = text.bytes;
    while (first > 0 && isdigit((unsigned char)text.at[first - 1]))
        first--;
    if (first == text.bytes) return false;
    bool negative = first > 0 && text.at[first - 1] == '-';
    if (text.at == value.at && first != negative) return false; /* rejects 1.5, 1e3 */
    uint64_t sum = 0;
    for (size_t i = first; i < text.bytes; i++) {
        if (sum > (INT64_MAX - 9) / 10) return false;
        sum = sum * 10 + (uint64_t)(text.at[i] - '0');
    }
    *number = negative ? -(int64_t)sum : (int64_t)sum;
    return true;
}

uint64_t dl_json_count(dl_json_text value)
{
    int64_t n = 0;
    return dl_json_int(value, &n) && n > 0 ? (uint64_t)n : 0;
}

/* Reads the exponent after 'e', which starts at text.at[i]. Returns false if the rest is not a
 * number. Digits after 99 or more are ignored: every time with such an exponent overflows, or
 * rounds to 0. */
static bool read_exponent(dl_json_text text, size_t i, int *exponent)
{
    bool negative = i < text.bytes && text.at[i] == '-';
    int sum = 0;
    if (i < text.bytes && (text.at[i] == '-' || text.at[i] == '+')) i++;
    if (i == text.bytes) return false;
    for (; i < text.bytes; i++) {
        if (!isdigit((unsigned char)text.at[i])) return false;
        if (sum < 99) sum = sum * 10 + (text.at[i] - '0');
    }
    *exponent = negative ? -sum : sum;
    return true;
}

/* Computes sum * 10^power, rounded to the nearest. Returns false on overflow. */
static bool scale(uint64_t sum, int power, uint64_t *scaled)
{
    for (; power > 0 && sum > 0; power--) {
        if (sum > INT64_MAX / 10) return false;
        sum *= 10;
    }
    uint64_t rest = 0;
    for (; power < 0 && (sum > 0 || rest > 0); power++) {
        rest = sum % 10;
        sum /= 10;
    }
    *scaled = sum + (rest >= 5);
    return true;
}

bool dl_json_us_to_ns(dl_json_text value, int64_t *ns)
{
    dl_json_text text = without_quotes(value);
    if (text.at == NULL || text.bytes == 0) return false;
    bool negative = text.at[0] == '-', fraction = false, digits = false;
    uint64_t sum = 0;
    int power = NS_DIGITS_OF_US;
    size_t i = negative;
    for (; i < text.bytes; i++) {
        char c = text.at[i];
        if (c == '.' && !fraction) {
            fraction = true;
        } else if (isdigit((unsigned char)c)) {
            digits = true;
            /* Digits that do not fit are insignificant after the point; before it, the number is
             * too large. */
            bool fits = sum <= (UINT64_MAX - 9) / 10;
            if (!fits && !fraction) return false;
            if (!fits) continue;
            sum = sum * 10 + (uint64_t)(c - '0');
            power -= fraction;
        } else {
            break;
        }
    }
    if (!digits) return false;
    if (i < text.bytes) {
        int exponent = 0;
        if (text.at[i] != 'e' && text.at[i] != 'E') return false;
        if (!read_exponent(text, i + 1, &exponent)) return false;
        power += exponent;
    }
    uint64_t scaled = 0;
    if (!scale(sum, power, &scaled) || scaled > INT64_MAX) return false;
    *ns = negative ? -(int64_t)scaled : (int64_t)scaled;
    return true;
}

/* Returns the value of four hexadecimal digits, or -1. */
static long read_hex(const char *at, const char *end)
{
    long code = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        if (!isxdigit((unsigned char)c)) return -1;
        code = code * 16 + (isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return code;
}

static size_t write_utf8(char *into, long code)
{
    if (code < 0x80) {
        into[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        into[0] = (char)(0xC0 | (code >> 6));
        into[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        into[0] = (char)(0xE0 | (code >> 12));
        into[1] = (char)(0x80 | ((code >> 6) & 0x3F));
        into[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    into[0] = (char)(0xF0 | (code >> 18));
    into[1] = (char)(0x80 | ((code >> 12) & 0x3F));
    into[2] = (char)(0x80 | ((code >> 6) & 0x3F));
    into[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Writes the character of the \u escape whose digits start at `at`; returns the number of source
 * bytes it takes, 0 if it is invalid. */
static size_t unescape_unicode(const char *at, const char *end, char *into, size_t *length)
{
    long code = read_hex(at, end);
    size_t taken = 4;
    if (code < 0) return 0;
    if (code >= 0xD800 && code < 0xDC00 && end - at >= 10 && at[4] == '\\' && at[5] == 'u') {
        long low = read_hex(at + 6, end);
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            taken = 10;
        }
    }
    if (code == 0 || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
    *length += write_utf8(into + *length, code);
    return taken;
}

size_t dl_json_unescape(dl_json_text value, char *into)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    dl_json_text text = without_quotes(value);
    const char *at = text.at, *end = text.at + text.bytes;
    size_t length = 0;
    if (text.at == value.at) { /* not a string: one byte less, for the NUL */
        length = value.bytes > 0 ? value.bytes - 1 : 0;
        if (length > 0) memcpy(into, value.at, length);
        if (value.bytes > 0) into[length] = '\0';
        return length;
    }
    while (at < end) {
        if (*at != '\\' || at + 1 == end) {
            into[length++] = *at++;
            continue;
        }
        const char *place = strchr(escapes, at[1]);
        if (at[1] == 'u') {
            size_t taken = unescape_unicode(at + 2, end, into, &length);
            if (taken > 0) {
                at += 2 + taken;
                continue;
            }
        } else if (place != NULL && at[1] != '\0') {
            into[length++] = meanings[place - escapes];
            at += 2;
            continue;
        }
        into[length++] = *at++;
    }
    into[length] = '\0';
    return length;
}
