// Package printable escapes text from files, such as names, before it is shown.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text escapes characters as [Append] does, line breaks and tabs included.
func Text(text string) string {
	if isPlain(text) {
		return text
	}
	const keepLines = false
	return string(Append(nil, []byte(text), keepLines))
}

// Append appends text to dst. Text comes from files and must not affect the terminal: control characters,
// characters that change the direction of text or are not visible, and line separators become escape sequences of JSON
// such as \u001b, and bytes that are not UTF-8 become \xff. If keepLines is set, line breaks and tabs are kept.
func Append(dst, text []byte, keepLines bool) []byte {
	for len(text) > 0 {
		plain := 0 // the number of bytes that are appended as they are
		for plain < len(text) && ' ' <= text[plain] && text[plain] <= '~' {
			plain++
		}
		dst, text = append(dst, text[:plain]...), text[plain:]
		if len(text) == 0 {
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			dst = fmt.Appendf(dst, "\\x%02x", text[0])
		case keepLines && (r == '\n' || r == '\t'), !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			dst = append(dst, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, "\\u%04x\\u%04x", high, low)
		default:
			dst = fmt.Appendf(dst, "\\u%04x", r)
		}
		text = text[size:]
	}
	return dst
}

// isPlain reports whether text has only printable characters of ASCII.
func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
