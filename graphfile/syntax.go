package graphfile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/numerals"
)

// diagnose returns the first syntax error in data, or nil if it finds none.
func diagnose(data []byte, formatOffset func(offset int) string) (m *syntaxMistake) {
	if m := wrongEncoding(data); m != nil {
		return m
	}
	s := &syntaxChecker{data: data, formatOffset: formatOffset}
	defer func() {
		// Any other panic is dropped, too. The caller then shows the message of the JSON library.
		if r, ok := recover().(*syntaxMistake); ok {
			m = r
		}
	}()
	s.skipSpace()
	if s.offset == len(data) {
		return &syntaxMistake{s.offset, "the file is empty"}
	}
	s.value()
	return nil
}

// syntaxMistake is a syntax error found by diagnose.
type syntaxMistake struct {
	offset int // offset in the data
	text   string
}

// wrongEncoding recognizes files that are not UTF-8 text by their first bytes.
func wrongEncoding(data []byte) *syntaxMistake {
	starts := func(prefix string) bool { return bytes.HasPrefix(data, []byte(prefix)) }
	switch {
	case starts("\xef\xbb\xbf"):
		return &syntaxMistake{0, "the file starts with a byte-order mark: save it as UTF-8 without one"}
	case starts("\xff\xfe"), starts("\xfe\xff"), starts("{\x00"), starts("\x00{"):
		return &syntaxMistake{0, "the file is UTF-16: save it as UTF-8"}
	case starts("\x08"): // the first field of an ONNX model in protobuf
		return &syntaxMistake{0, "the file is binary, not a graph file: the name of an ONNX model must end in .onnx"}
	}
	if kind := files.Kind(data); kind != "" && !starts("{") {
		return &syntaxMistake{0, "this is not a graph file: " + kind}
	}
	return nil
}

// syntaxChecker finds the first syntax error of a file that the JSON library rejected. It describes the mistake, such
// as a missing comma. The library's message names only a character. It parses the file without storing values. Its
// methods have the names of the rules, and [syntaxChecker.fail] ends the parsing:
//
//	value       = members in {} or [] | stringValue | number | literal
//	member      = stringValue ":" value     of an object; a member of a list is a value
//	stringValue = '"' { character | escape } '"'
type syntaxChecker struct {
	data         []byte
	offset       int
	formatOffset func(offset int) string // formats an offset: "line 3, column 5"
	openBrackets []bracket
}

// bracket is an open object or list, with its keys so far.
type bracket struct {
	kind   byte // '{' or '['
	offset int
	keys   map[string]int // offset of each key
}

// fail panics with the mistake at an offset of the file. It is not inlined, to save compile time: it has many callers,
// none of them hot.
//
//go:noinline
func (s *syntaxChecker) fail(offset int, format string, args ...any) {
	panic(&syntaxMistake{offset, "invalid JSON: " + fmt.Sprintf(format, args...)})
}

// skipSpace skips white space, and rejects comments.
func (s *syntaxChecker) skipSpace() {
	for s.offset < len(s.data) {
		switch c := s.data[s.offset]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			s.offset++
		case c == '#' || s.startsWith("//") || s.startsWith("/*"):
			s.fail(s.offset, "JSON has no comments: remove it")
		case s.startsWith("\u00a0"):
			s.fail(s.offset, "this is a no-break space: write a plain one")
		default:
			return
		}
	}
}

// startsWith reports whether the unread data starts with a text.
func (s *syntaxChecker) startsWith(text string) bool {
	return bytes.HasPrefix(s.data[s.offset:], []byte(text))
}

// peek returns the next character. At the end of the file it reports the unclosed bracket.
func (s *syntaxChecker) peek() byte {
	s.skipSpace()
	if s.offset < len(s.data) {
		return s.data[s.offset]
	}
	if len(s.openBrackets) == 0 {
		s.fail(s.offset, "the file ends before a value")
	}
	top := s.openBrackets[len(s.openBrackets)-1]
	s.fail(s.offset, "the file ends early: the %s that starts at %s is not closed", kindOf(top.kind),
		s.formatOffset(top.offset))
	return 0 // not reached: fail panics
}

func kindOf(bracket byte) string {
	if bracket == '{' {
		return "object"
	}
	return "list"
}

// value reads a value of any kind. The recursion is bounded: [syntaxChecker.members] limits the depth.
func (s *syntaxChecker) value() {
	switch c := s.peek(); {
	case c == '{':
		s.members('}', s.member)
	case c == '[':
		s.members(']', s.value)
	case c == '"':
		s.stringValue()
	case c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9':
		s.number()
	case c == '\'' || c == '`':
		s.fail(s.offset, "a string needs double quotes, \"...\"")
	case s.startsWith("“") || s.startsWith("”") || s.startsWith("‘"):
		s.fail(s.offset, "these are typographic quotes: a string needs plain ones, \"...\"")
	case c == ',':
		s.fail(s.offset, "a value is missing before this comma")
	case c == ']' || c == '}':
		s.fail(s.offset, "a value is missing before this %c", c)
	case c == ':':
		s.fail(s.offset, "want a value, got a colon: only objects, {...}, have keys")
	default:
		s.literal()
	}
}

// members reads the members of an object or a list, up to its end.
func (s *syntaxChecker) members(end byte, member func()) {
	s.openBrackets = append(s.openBrackets, bracket{kind: s.data[s.offset], offset: s.offset})
	if len(s.openBrackets) > maxOpenBrackets {
		panic(&syntaxMistake{s.offset, "lists and objects are nested too deep"})
	}
	s.offset++
	for first := true; ; first = false {
		c := s.peek()
		switch {
		case c == end:
			s.offset++
			s.openBrackets = s.openBrackets[:len(s.openBrackets)-1]
			return
		case c == ']' || c == '}':
			top := s.openBrackets[len(s.openBrackets)-1]
			s.fail(s.offset, "got %c, but the %s that starts at %s ends with %c", c, kindOf(top.kind),
				s.formatOffset(top.offset), end)
		case !first && c != ',':
			s.missingComma(c, end)
		case !first:
			comma := s.offset
			s.offset++
			if c := s.peek(); c == ']' || c == '}' {
				s.fail(comma, "there is a comma after the last member: remove it")
			}
		}
		member()
	}
}

// maxOpenBrackets is the limit of the JSON library for nested lists and objects.
const maxOpenBrackets = 10000

// missingComma reports the character c in place of a comma. end is the closing bracket of the list or object.
func (s *syntaxChecker) missingComma(c, end byte) {
	switch {
	case c == ':' && s.openBrackets[len(s.openBrackets)-1].kind == '[':
		s.fail(s.offset, "unexpected colon in a list: only objects, {...}, have keys")
	case c == ';':
		s.fail(s.offset, "a comma separates members, not a semicolon")
	case c == ':' || c == '=':
		s.fail(s.offset, "want a comma or %c, got %c", end, c)
	}
	s.fail(s.offset, "a comma is missing before this")
}

// member reads a key and its value.
func (s *syntaxChecker) member() {
	switch c := s.peek(); {
	case c == '"': // the start of a key
	case c == '\'':
		s.fail(s.offset, "a key needs double quotes, \"...\"")
	case c == ',':
		s.fail(s.offset, "a member is missing before this comma")
	case c == '_' || isLetter(c):
		s.fail(s.offset, "a key needs double quotes: \"%s\"", s.name())
	default:
		s.fail(s.offset, "want a key in double quotes")
	}
	offset := s.offset
	key := s.stringValue()
	top := &s.openBrackets[len(s.openBrackets)-1]
	if first, ok := top.keys[key]; ok {
		s.fail(offset, "the key %q occurs twice in one object, first at %s", key, s.formatOffset(first))
	}
	if top.keys == nil {
		top.keys = map[string]int{}
	}
	top.keys[key] = offset
	if c := s.peek(); c != ':' {
		if c == '=' {
			s.fail(s.offset, "a colon follows a key, not =")
		}
		s.fail(s.offset, "a colon is missing after the key %q", key)
	}
	s.offset++
	if c := s.peek(); c == '}' || c == ',' {
		s.fail(s.offset, "the key %q has no value", key)
	}
	s.value()
}

// name returns the letters, digits, points and underscores at the current offset, at most 40 characters.
func (s *syntaxChecker) name() string {
	end := s.offset
	isNameChar := func(c byte) bool { return c == '_' || c == '.' || isDigit(c) || isLetter(c) }
	for end < len(s.data) && isNameChar(s.data[end]) {
		end++
	}
	return string(s.data[s.offset:min(end, s.offset+40)])
}

// literal reads true, false or null. To describe mistakes, it also recognizes these words, infinities and NaN as other
// languages spell them.
func (s *syntaxChecker) literal() {
	name := s.name()
	switch name {
	case "true", "false", "null":
		s.offset += len(name)
		return
	}
	if len(s.openBrackets) == 0 {
		panic(&syntaxMistake{s.offset, "this is not a graph file: it is not JSON"})
	}
	switch name {
	case "True", "TRUE", "yes":
		s.fail(s.offset, "JSON has true, not %s", name)
	case "False", "FALSE", "no":
		s.fail(s.offset, "JSON has false, not %s", name)
	case "None", "nil", "NULL", "Null", "undefined":
		s.fail(s.offset, "JSON has null, not %s", name)
	case "":
		r, n := utf8.DecodeRune(s.data[s.offset:])
		if r == utf8.RuneError && n <= 1 {
			s.notText(s.offset)
		}
		s.fail(s.offset, "want a value, got %q", r)
	}
	if meant := numerals.IntendedLiteral(name); meant != "" || numerals.IsSpecial(name) {
		s.unquotedSpecial(s.offset, name)
	}
	s.fail(s.offset, "want a value, got %s: a string needs double quotes", name)
}

// unquotedSpecial reports an infinity or NaN without quotes.
func (s *syntaxChecker) unquotedSpecial(offset int, name string) {
	meant := numerals.IntendedLiteral(name)
	if meant == "" {
		meant = name
	}
	s.fail(offset, "JSON has no %s: write \"%s\", in quotes", name, meant)
}

// number reads a number by JSON's rules, which are stricter than the rules of most languages.
func (s *syntaxChecker) number() {
	start := s.offset
	s.skipOneOf("+-")
	if name := s.name(); name != "" && !isDigit(name[0]) && name[0] != '.' {
		s.unquotedSpecial(start, string(s.data[start:s.offset])+name)
	}
	integerStart := s.offset // of the integer part
	integerDigits := s.skipDigits()
	text := func() string { return string(s.data[start:s.offset]) + s.name() }
	switch {
	case s.data[start] == '+':
		s.fail(start, "a number has no plus sign in JSON")
	case integerDigits == 0 && s.offset < len(s.data) && s.data[s.offset] == '.':
		s.fail(start, "a digit must be before the point of a number: 0.5, not .5")
	case integerDigits == 0:
		s.fail(start, "a number must be after the sign")
	case integerDigits > 1 && s.data[integerStart] == '0':
		s.fail(start, "%s starts with a zero: JSON's numbers do not", text())
	}
	if s.skipOneOf(".") && s.skipDigits() == 0 {
		s.fail(start, "a digit must be after the point of a number: 1.0, not 1.")
	}
	if s.skipOneOf("eE") {
		if s.skipOneOf("+-"); s.skipDigits() == 0 {
			s.fail(start, "the exponent of a number is missing")
		}
	}
	if s.name() != "" {
		s.fail(start, "%s is not a JSON number: write 12, -0.5 or 1e-05", text())
	}
}

// skipDigits skips digits, and returns their number.
func (s *syntaxChecker) skipDigits() int {
	start := s.offset
	for s.offset < len(s.data) && isDigit(s.data[s.offset]) {
		s.offset++
	}
	return s.offset - start
}

// skipOneOf skips the next character if it is one of chars, and reports whether it did.
func (s *syntaxChecker) skipOneOf(chars string) bool {
	if s.offset < len(s.data) && strings.IndexByte(chars, s.data[s.offset]) >= 0 {
		s.offset++
		return true
	}
	return false
}

// notText reports a byte that is not part of a UTF-8 character.
func (s *syntaxChecker) notText(offset int) {
	s.fail(offset, "the file is not UTF-8 text: byte %#02x", s.data[offset])
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// stringValue reads a string and returns its contents.
func (s *syntaxChecker) stringValue() string {
	start := s.offset
	for s.offset++; s.offset < len(s.data); s.offset++ {
		switch c := s.data[s.offset]; {
		case c == '"':
			s.offset++
			return string(s.data[start+1 : s.offset-1])
		case c == '\n' || c == '\r':
			s.fail(start, "the string that starts here is not closed on its line")
		case c < ' ':
			s.fail(s.offset, "a control character is in a string: write it as \\u%04x", c)
		case c == '\\':
			s.escape()
		case c >= utf8.RuneSelf: // not ASCII
			r, n := utf8.DecodeRune(s.data[s.offset:])
			if r == utf8.RuneError && n == 1 {
				s.notText(s.offset)
			}
			s.offset += n - 1
		}
	}
	s.fail(start, "the file ends in the string that starts here")
	return "" // not reached
}

// escape reads an escape sequence, from the backslash to its last character.
func (s *syntaxChecker) escape() {
	offset := s.offset
	if s.offset++; s.offset >= len(s.data) {
		return // stringValue reports the end of the file
	}
	switch c := s.data[s.offset]; {
	case strings.IndexByte(`"\/bfnrt`, c) >= 0: // one character
	case c == 'u':
		for range 4 {
			if s.offset++; s.offset >= len(s.data) || strings.IndexByte("0123456789abcdefABCDEF", s.data[s.offset]) < 0 {
				s.fail(offset, "four hexadecimal digits must follow \\u")
			}
		}
	case c == '\'':
		s.fail(offset, "JSON does not know \\': an apostrophe needs no backslash")
	default:
		r, n := utf8.DecodeRune(s.data[s.offset:])
		if r == utf8.RuneError && n <= 1 {
			s.notText(s.offset)
		}
		s.fail(offset, "JSON does not know \\%c: a backslash itself is written \\\\", r)
	}
}
